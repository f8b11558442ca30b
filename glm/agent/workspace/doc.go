// Package workspace has the tools with which an agent repairs a Go package: list
// files, read one, edit one, run the tests.
//
//	w, err := workspace.Open("path/to/repository")
//	defer w.Close()
//	a, err := agent.New(model, pool, agent.Config{Tools: w.Tools()})
//
// # The tools
//
// Names, descriptions, schemas and results are those that the embedded model was
// trained with, to the byte:
//
//	list_files()                the paths, sorted, one a line
//	read_file(path)             the text
//	edit_file(path, old, new)   ok
//	run_tests()                 what go test prints, without durations, at most 2,000 characters
//
// What cannot be done is a text that begins with "error: ". Paths have slashes
// and are relative to the root on every system.
//
// # Confinement
//
// All access goes through an [os.Root]. Beyond that a path must be spelled as
// list_files spells it: "..", absolute paths, other spellings of a name on a file
// system that ignores case, symbolic links and everything that is no regular file
// are refused, and so is what list_files does not list: .git, and anything
// through a link.
//
// Tests and go.mod are read-only: a repair that changes the test is none.
//
// A file is written beside its old self and put in its place by renaming, so that
// a reader sees the old or the new one. Its permissions stay. A file whose lines
// all end in CR LF is shown with LF and keeps CR LF.
//
// # Caveats
//
// run_tests runs the code of the package, with the rights of this process and
// its environment. The confinement is about what the model reads and writes, not
// about what the tests do: ask before you let it run code that you do not trust.
//
// The go command runs without a shell. When its time is up, or the context ends,
// it is killed with everything it started in its process group; on Windows, only
// itself.
//
// Renaming gives a file a new identity: hard links to it keep the old text, and
// owner and extended attributes are those of a new file.
package workspace
