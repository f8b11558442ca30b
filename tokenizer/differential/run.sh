#!/usr/bin/env bash
# Compares this package with the references over 20 MiB of text; see README.md.
#
#   PYTHON=venv/bin/python ./run.sh LLAMA3_TOKENIZER_JSON [BYTES [SEED]]
set -euo pipefail
json=$(realpath "$1")
size=${2:-$((20 << 20))}
seed=${3:-1}
python=$(realpath -s "${PYTHON:-$(command -v python3)}")
cd "$(dirname "$0")"
ranks=$PWD/../testdata/cl100k_base.tiktoken.gz
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

go run _encode/main.go -ranks "$ranks" -json "$json" -out "$work" -size "$size" -seed "$seed"
"$python" classes.py --check >"$work/classes"
"$python" reference.py --ranks "$ranks" --json "$json" --dir "$work" \
	--result "$work/result" --golden ../testdata/golden.json

{
	echo "# Result of the comparison"
	echo
	echo "$(date -u +%F), \`run.sh\` with seed $seed, $(go version | cut -d' ' -f3-4), $(head -1 "$work/result")."
	echo "tokenizer.json: Llama 3, SHA-256 $(sha256sum "$json" | cut -d' ' -f1)."
	echo
	echo "Classes of all code points:"
	echo
	sed 's/^/- /' "$work/classes"
	tail -n +2 "$work/result"
	echo
	echo "Documents have 32 KiB. Each is compared as untrusted text (\`Encode\`) and, if it is UTF-8, as"
	echo "trusted text (\`EncodeWithAdded\`, added tokens recognised). \"broken\" is text that is not UTF-8,"
	echo "which the references do not take: there Hugging Face's engine splits the text with a"
	echo "private-use character in place of each bad byte, and each reference merges the pieces as bytes."
} >RESULT.md
