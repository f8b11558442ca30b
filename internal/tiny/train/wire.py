"""The GLM-5.3 chat format: from messages to control ids and text.

Text and control tokens stay apart: what a file or a user says is encoded
without looking for control tokens in it, as the library does.
"""

import json

ADDED = """<|endoftext|> [MASK] [gMASK] [sMASK] <sop> <eop> <|system|> <|user|> <|assistant|> <|observation|>
<|begin_of_image|> <|end_of_image|> <|begin_of_video|> <|end_of_video|> <|begin_of_audio|> <|end_of_audio|>
<|begin_of_transcription|> <|end_of_transcription|> <|code_prefix|> <|code_middle|> <|code_suffix|> <think> </think>
<tool_call> </tool_call> <tool_response> </tool_response> <arg_key> </arg_key> <arg_value> </arg_value> /nothink
<|begin_of_box|> <|end_of_box|> <|image|> <|video|>""".split()

# Offsets 0-20 and /nothink are special; the rest stays visible in decoded text.
SPECIAL = set(ADDED[:21]) | {"/nothink"}

TOOLS_HEAD = """
# Tools

You may call one or more functions to assist with the user query.

You are provided with function signatures within <tools></tools> XML tags:
<tools>
"""
TOOLS_TAIL = """
</tools>

For each function call, output the function name and arguments within the following XML format:
"""

NONE, ANSWER, TEXT = 0, 1, 2  # what a token is to the loss: nothing, the model's own words, other text

BASE = 4096  # learned tokens of the vocabulary; the added ones follow
VOCABULARY = BASE + len(ADDED)


class Render:
    """Collects (control name or None, text, loss class) parts."""

    def __init__(self):
        self.parts = []

    def control(self, name, loss=NONE):
        self.parts.append((name, "", loss))

    def text(self, text, loss=NONE):
        if text:
            self.parts.append((None, text, loss))

    def start(self, tools=(), effort="Max"):
        self.control("[gMASK]")
        self.control("<sop>")
        self.control("<|system|>")
        self.text("Reasoning Effort: " + effort)
        if tools:
            self.control("<|system|>")
            self.text(TOOLS_HEAD + "\n".join(json.dumps(t, ensure_ascii=False) for t in tools) + TOOLS_TAIL)
            self.call_text("{function-name}", [("{arg-key-1}", "{arg-value-1}"), ("{arg-key-2}", "{arg-value-2}")], NONE, "...")

    def call_text(self, name, args, loss, extra=""):
        self.control("<tool_call>", loss)
        self.text(name, loss)
        for key, value in args:
            self.control("<arg_key>", loss)
            self.text(key, loss)
            self.control("</arg_key>", loss)
            self.control("<arg_value>", loss)
            self.text(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False), loss)
            self.control("</arg_value>", loss)
        self.text(extra, loss)
        self.control("</tool_call>", loss)

    def system(self, text):
        self.control("<|system|>")
        self.text(text)

    def user(self, text, stop=NONE):
        """stop is the loss class of the role token, which ended the answer before it."""
        self.control("<|user|>", stop)
        self.text(text)

    def prompt(self):
        self.control("<|assistant|>")
        self.control("<think>")

    def assistant(self, reasoning, content="", calls=(), loss=ANSWER):
        self.prompt()
        self.text(reasoning, loss)
        self.control("</think>", loss)
        self.text(content, loss)
        for name, args in calls:
            self.call_text(name, args, loss)

    def results(self, results, stop=ANSWER):
        """results: texts, or (text, loss class) pairs."""
        self.control("<|observation|>", stop)
        for r in results:
            text, loss = r if isinstance(r, tuple) else (r, NONE)
            self.control("<tool_response>")
            self.text(text, loss)
            self.control("</tool_response>")

    def string(self):
        return "".join(name or text for name, text, _ in self.parts)


def conversation(messages, tools=(), effort="Max", generation_prompt=True):
    """Renders OpenAI-shaped messages; used to check this file and by the judge loop."""
    r = Render()
    r.start([{k: v for k, v in t["function"].items() if k not in ("strict", "defer_loading")} for t in tools], effort)
    i = 0
    while i < len(messages):
        m = messages[i]
        content = m.get("content") or ""
        if m["role"] == "system":
            r.system(content)
        elif m["role"] == "user":
            r.user(content)
        elif m["role"] == "assistant":
            calls = [(c["function"]["name"], list(c["function"]["arguments"].items())) for c in m.get("tool_calls", [])]
            r.assistant(m.get("reasoning_content", ""), content.strip(), calls, NONE)
            ids = [c.get("id") for c in m.get("tool_calls", [])]
        elif m["role"] == "tool":
            run = []
            while i < len(messages) and messages[i]["role"] == "tool":
                run.append(messages[i])
                i += 1
            i -= 1
            if sorted(str(t.get("tool_call_id")) for t in run) == sorted(map(str, ids)) and len(set(ids)) == len(ids):
                run.sort(key=lambda t: ids.index(t["tool_call_id"]))
            r.results([t["content"] for t in run], NONE)
        i += 1
    if generation_prompt:
        r.prompt()
    return r
