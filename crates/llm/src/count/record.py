#!/usr/bin/env python3
"""Records how the tokenizers behind LiteLLM cut and count texts, and what its token_counter says of whole requests, for
`tests.rs`; run with the SDK installed, prints reference.json."""

import json
import os
import pathlib

import litellm
import regex
import tiktoken
from litellm import token_counter

# The vocabularies that LiteLLM brings along.
os.environ["TIKTOKEN_CACHE_DIR"] = str(pathlib.Path(litellm.__file__).parent / "litellm_core_utils" / "tokenizers")

TEXTS = {
    "prose": "The operator watches two kinds of resources and makes pods follow them. When a claim arrives, it picks a warm pod, "
    "proves that the address belongs to it, and hands over the conversation's key. Nothing is kept outside the cluster, so a new "
    "leader can go on where the old one stopped; it doesn't even notice. We'll measure it, of course: 99.95 % of claims took less "
    "than 250 ms on a machine with 2 cores.",
    "rust": "impl Counter {\n    /// Tokens of a text.\n    pub fn text(&self, text: &str) -> u64 {\n        match self.tokenizer.as_ref()"
    ".and_then(|tokenizer| tokenizer.ranks()) {\n            Some(ranks) => ranks.count(text),\n            None => estimate::tokens(text),\n"
    "        }\n    }\n}\n\nfn isLineEnd(HTTPServer: XMLParser) -> Result<Vec<u8>, IOError> { todo!() }\n",
    "python": "def read_model_table(path: str, *, encoding: str = \"utf-8\") -> dict[str, ModelInfo]:\n    \"\"\"Reads the table.\"\"\"\n    with "
    "open(path, encoding=encoding) as file:\n        rows = [line.rstrip(\"\\n\").split(\"\\t\") for line in file if not line.startswith(\"#\")]\n"
    "    return {name: ModelInfo(*cells) for name, *cells in rows if len(cells) >= 7}\n",
    "json": json.dumps({"command": "git log --oneline -n 20 && cargo test -p openhands-llm --lib 2>&1 | tail -40", "timeout": 120.5,
                        "security_risk": "LOW", "summary": "look at the latest commits", "path": "/workspace/project/src/main.rs",
                        "view_range": [1, 250], "nested": {"is_input": False, "reset": None}}),
    "shell": "total 48\ndrwxr-xr-x  9 root root  4096 Nov 30 17:03 .\ndrwxr-xr-x 14 root root  4096 Nov 30 16:09 ..\n-rw-r--r--  1 root root "
    "12345 Nov 30 17:41 models.tsv\n$ kubectl get pods -A --field-selector=status.phase!=Running\nNo resources found\n",
    "log": "2026-11-30T19:15:43.123456Z  INFO agent_server::router: request{method=POST uri=/api/conversations id=7f3c9a0e-55d1-4b0c-9c7e-"
    "0a1b2c3d4e5f}: finished latency=12.7ms status=201\n2026-11-30T19:15:44.000001Z ERROR store: cannot write /data/events/00042.json: No "
    "space left on device (os error 28)\n",
    "markdown": "# Models\n\n| Provider | Interface | Key |\n|---|---|---|\n| `openai/` | Chat Completions | `OPENAI_API_KEY` |\n| `anthropic/` | "
    "Messages | `ANTHROPIC_API_KEY` |\n\n- **Caching**: the static prefix is marked\n- *Streaming*: deltas, then one answer\n\n```sh\ncurl -s "
    "localhost:8000/ready\n```\n----------------------------------------\n",
    "german": "Die Sitzung läuft über mehrere Maschinen hinweg, und jede Größe wird vor dem Start überprüft. Schließlich müssen "
    "Geschwindigkeitsmessungen wiederholbar bleiben; außerdem darf kein Schlüssel in einem Protokoll erscheinen.",
    "french": "Le modèle répond en plusieurs morceaux, que le serveur assemble avant de les enregistrer. Même après une coupure, "
    "l'historique reste complet et la conversation reprend là où elle s'était arrêtée.",
    "russian": "Сервер получает запрос, проверяет ключ и передаёт его модели. Если ответ не приходит вовремя, запрос повторяется "
    "через несколько секунд, а затем выбирается другая модель.",
    "chinese": "服务器收到请求后，先检查密钥，然后把消息发送给模型。如果模型暂时没有回答，系统会等待几秒钟再试一次，最后选择另一个模型继续对话。",
    "japanese": "サーバーはリクエストを受け取ると、まずキーを確認してからモデルにメッセージを送ります。返事がない場合は数秒待って、もう一度試します。",
    "korean": "서버는 요청을 받으면 먼저 키를 확인한 다음 모델에 메시지를 보냅니다. 응답이 없으면 몇 초 기다렸다가 다시 시도합니다.",
    "arabic": "يستقبل الخادم الطلب ثم يتحقق من المفتاح ويرسل الرسالة إلى النموذج. إذا لم يصل الرد في الوقت المحدد يعاد الطلب مرة أخرى.",
    "hindi": "सर्वर अनुरोध प्राप्त करता है, कुंजी की जाँच करता है और संदेश मॉडल को भेजता है। उत्तर न मिलने पर वह कुछ सेकंड बाद फिर प्रयास करता है।",
    "greek": "Ο διακομιστής λαμβάνει το αίτημα, ελέγχει το κλειδί και στέλνει το μήνυμα στο μοντέλο. Αν δεν υπάρξει απάντηση, δοκιμάζει ξανά.",
    "base64": "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==QmFzZTY0IGlzIG5vdCBhIGNpcGhlcgo"
    "x7Kp2fLq0Zr9TtYbVnHs4EwJcXo1GmAu8DiPk",
    "hex": "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855 da39a3ee5e6b4b0d3255bfef95601890afd80709",
    "emoji": "Fertig ✅ – 3 Tests 🎉🎉, keine Fehler… „gut“ → weiter ★★★",
    "blanks": "\n\n\n        deep\t\ttabs\r\n   \n  x  y   z\n\n",
    "edges": "I'M sure they'll've gone; it's 1234567 x²  \u00a0end 'tis O'Neil's HTMLParser2Go fooBarBAZ",
}

MESSAGES = [
    {"role": "system", "content": TEXTS["markdown"]},
    {"role": "user", "content": [{"type": "text", "text": TEXTS["prose"]}]},
    {"role": "assistant", "content": "I look.", "tool_calls": [
        {"id": "call_1", "type": "function", "function": {"name": "terminal", "arguments": TEXTS["json"]}}]},
    {"role": "tool", "tool_call_id": "call_1", "name": "terminal", "content": TEXTS["shell"]},
    {"role": "assistant", "content": TEXTS["rust"]},
    {"role": "user", "content": "thanks"},
]
TOOLS = [{"type": "function", "function": {
    "name": "terminal", "description": TEXTS["prose"], "parameters": {"type": "object", "required": ["command"], "properties": {
        "command": {"type": "string", "description": "The command to run in the shell of the conversation."},
        "is_input": {"type": "boolean", "description": "Whether the text goes to the running program.", "default": False},
        "security_risk": {"type": "string", "enum": ["LOW", "MEDIUM", "HIGH"], "description": "How dangerous this is."}}}}}]

out = {"texts": {}}
for encoding in ("cl100k_base", "o200k_base"):
    tokenizer = tiktoken.get_encoding(encoding)
    pattern = regex.compile(tokenizer._pat_str)
    for name, text in TEXTS.items():
        entry = out["texts"].setdefault(name, {"text": text})
        entry[encoding] = {"pieces": pattern.findall(text), "tokens": len(tokenizer.encode_ordinary(text))}
        assert "".join(entry[encoding]["pieces"]) == text
out["messages"] = MESSAGES
out["tools"] = TOOLS
out["counted"] = token_counter("anthropic/claude-sonnet-4-5", messages=MESSAGES)
out["counted_with_tools"] = token_counter("anthropic/claude-sonnet-4-5", messages=MESSAGES, tools=TOOLS)
print(json.dumps(out, ensure_ascii=False, indent=0))
