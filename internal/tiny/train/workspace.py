"""The four tools of the repair loop over a temporary folder.

The texts they return are part of what the model was trained on; glm/agent's
file tools return the same ones.
"""

import os
import re
import subprocess
import tempfile


class Workspace:
    def __init__(self, files):
        self.files = files

    def __enter__(self):
        self.tmp = tempfile.TemporaryDirectory()
        self.root = self.tmp.name
        for path, text in self.files.items():
            with open(os.path.join(self.root, path), "w", encoding="utf-8") as f:
                f.write(text)
        return self

    def __exit__(self, *unused):
        self.tmp.cleanup()

    def list_files(self):
        return "\n".join(sorted(os.listdir(self.root)))

    def _path(self, path):
        full = os.path.join(self.root, path)
        return full if path in os.listdir(self.root) else None

    def read_file(self, path):
        full = self._path(path)
        if not full:
            return f"error: no file {path}"
        return open(full, encoding="utf-8").read()

    def edit_file(self, path, old, new):
        full = self._path(path)
        if not full:
            return f"error: no file {path}"
        if path.endswith("_test.go") or path == "go.mod":
            return f"error: {path} is read-only"
        text = open(full, encoding="utf-8").read()
        count = text.count(old) if old else 0
        if count == 0:
            return f"error: old text not found in {path}"
        if count > 1:
            return f"error: old text occurs {count} times in {path}"
        with open(full, "w", encoding="utf-8") as f:
            f.write(text.replace(old, new))
        return "ok"

    def run_tests(self):
        """`go test` without durations, at most 2,000 bytes."""
        try:
            done = subprocess.run(["go", "test", "-count=1", "-timeout=10s"], cwd=self.root, capture_output=True, text=True, timeout=120)
        except subprocess.TimeoutExpired:
            return "FAIL\ttimeout"
        text = done.stdout + done.stderr
        if "build failed" in text:
            text = done.stderr + done.stdout
        text = re.sub(r" \(\d+\.\d+s\)", "", text)
        text = re.sub(r"\t\(?\d+\.\d+s\)?$", "", text, flags=re.M)
        text = re.sub(r"^(exit status \d+|PASS)\n", "", text, flags=re.M)
        return text.strip()[:2000]

    def passes(self):
        return subprocess.run(["go", "test", "-count=1", "-timeout=10s"], cwd=self.root, capture_output=True, timeout=120).returncode == 0
