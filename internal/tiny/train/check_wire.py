"""Compares wire.py with prompts that the released GLM-5.3 template renders.

    python check_wire.py GOLDENS.json
"""

import json
import sys

import wire


def main():
    ran = bad = 0
    for case in json.load(open(sys.argv[1]))["cases"]:
        given = case["input"]
        if not case["template"].startswith("GLM-5.3") or given.get("clear_thinking") or case["case"] == "inline_think":
            continue
        if any(isinstance(m.get("content"), list) for m in given["messages"]):
            print("skipped (content parts):", case["case"])
            continue
        effort = {"low": "Low", "high": "High"}.get(given.get("reasoning_effort"), "Max")
        got = wire.conversation(given["messages"], given.get("tools", ()), effort, given.get("add_generation_prompt", False)).string()
        ran += 1
        if got != case["expected"]:
            bad += 1
            print(case["case"], "\nwant", repr(case["expected"]), "\ngot ", repr(got))
    print(f"{bad} of {ran} prompts differ")
    sys.exit(bad > 0 or ran == 0)


if __name__ == "__main__":
    main()
