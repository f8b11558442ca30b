// Package checkpoint reads GLM mixture-of-experts checkpoints in the published
// format: config.json, generation_config.json and safetensors.
//
// # Basics
//
// [Open] maps a directory and returns a [Checkpoint]: a [Config], and a [Tensor]
// by name.
//
//	ck, err := checkpoint.Open(dir)
//	w, err := ck.Tensor("model.layers.0.self_attn.o_proj.weight")
//
// [OpenFS] does the same for an fs.FS and copies what it cannot map. In both
// cases weights are outside the Go heap. [Inventory] lists the tensors of a model
// from its configuration alone, and [Scan] reads headers without weights.
//
// # What is refused
//
// Unknown fields of config.json are ignored. A known field whose value would
// change the model in a way that the graphs do not know is refused by name: a
// model that answers wrongly is worse than one that does not load. Files must
// hold exactly the tensors that the configuration asks for; [Open] lists the few
// that may be there besides. A header that leaves a gap, overlaps, or says a key
// twice is refused, as is an index that leads out of its directory.
//
// Errors are an *[UnsupportedError] (the configuration; it names the field) or a
// *[CheckpointError] (the files; it names file, tensor and byte), and match
// [ErrUnsupportedModel] or [ErrCorruptCheckpoint].
//
// # Quantised weights
//
// An F8_E4M3 weight X.weight has its scales beside it, and which ones it has
// decides how it is read: X.weight_scale_inv is one multiplier per 128x128 block
// (the name notwithstanding), X.weight_scale one per row. Lists in config.json of
// what was or was not quantised are not read; published ones are wrong. The
// embedding, norms, biases and the router's matrix are never F8, and the router's
// correction bias is F32 or refused, because its values differ by less than a
// BF16 step.
//
// A scale must be finite, also times the largest code, and not negative. Zero is
// accepted over codes that are zero. This is checked when a tensor is asked for,
// since it reads the file. Other values are not checked: a NaN in a weight shows
// as a row that fails.
//
// # Packed weights
//
// Weights that are computed with in another format than they are stored in are made
// once, kept in a file and read from there: [LoadPacked]. To this package they are
// bytes with names. Its file is complete or absent, whoever is killed when; it
// belongs to one fingerprint, format and version, and anything else is made anew.
// Blobs are read into memory in large pages, by several goroutines, and nobody sees
// a byte before its checksum held.
//
// # Caveats
//
// The checksums of packed weights (CRC-32C) find damage, not forgery: whoever may
// write into the directory decides what the model computes with.
//
// A Tensor's slices are the mapped file: read-only, and dead after Close.
//
// If somebody overwrites a weight file while it is mapped, reads of it return
// other bytes, and nothing can notice. If somebody truncates it, reads of the
// lost pages fault: this package and internal/cpu turn that into an error of the
// call or step that met it (see offheap.Guard); other code that reads a Tensor's
// slices without such a guard ends the process. Windows refuses the truncation.
// Elsewhere the operator avoids both by never writing into a file that is in use: download to another name and rename
// over the old one (the mapped file then lives on until it is closed), keep
// checkpoints read-only or on a read-only mount, and do not map files from a
// network share that others write. A copy through OpenFS of a file system that is
// not the operating system's is immune.
package checkpoint
