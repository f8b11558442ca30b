"""Compares wire.py and chat_template.jinja with prompts that the released GLM-5.3 template renders.

    python check_wire.py GOLDENS.json
"""

import json
import os
import sys

import jinja2

import wire


def template():
    env = jinja2.Environment(trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"])
    env.filters["tojson"] = lambda x, ensure_ascii=True: json.dumps(x, ensure_ascii=ensure_ascii)
    here = os.path.dirname(os.path.abspath(__file__))
    return env.from_string(open(os.path.join(here, "chat_template.jinja"), encoding="utf-8").read())


def by_wire(given):
    """None where wire.py does not go: content parts, inline thoughts, cleared thoughts."""
    if given.get("clear_thinking") or any(not isinstance(m.get("content") or "", str) or "</think>" in (m.get("content") or "") for m in given["messages"]):
        return None
    effort = {"low": "Low", "high": "High"}.get(given.get("reasoning_effort"), "Max")
    return wire.conversation(given["messages"], given.get("tools", ()), effort, given.get("add_generation_prompt", False)).string()


def main():
    ran = {"template": 0, "wire.py": 0}
    bad, jinja = 0, template()
    for case in json.load(open(sys.argv[1], encoding="utf-8"))["cases"]:
        if not case["template"].startswith("GLM-5.3"):
            continue
        for name, got in (("template", jinja.render(**case["input"])), ("wire.py", by_wire(case["input"]))):
            if got is None:
                continue
            ran[name] += 1
            if got != case["expected"]:
                bad += 1
                print(name, case["case"], "\nwant", repr(case["expected"]), "\ngot ", repr(got))
    print(f"compared {ran}, {bad} differ")
    sys.exit(bad > 0 or not all(ran.values()))


if __name__ == "__main__":
    main()
