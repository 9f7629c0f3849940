"""python_chat.py MODEL [TEMPLATE]: asks two questions; the second answer knows of the first."""
import sys
from typing import Dict, List

import onepass

template = open(sys.argv[2], encoding="utf-8").read() if len(sys.argv) > 2 else None
model = onepass.Model(sys.argv[1], chat_template=template)
conversation = model.sequence(context=2048)
messages: List[Dict[str, str]] = [{"role": "system", "content": "Answer briefly."}]
for question in ("What did Tom find in the garden?", "What did he do with it?"):
    messages.append({"role": "user", "content": question})
    print(">", question)
    answer = ""
    for piece in conversation.stream(messages, max_tokens=60):
        print(piece.text, end="", flush=True)
        answer += piece.text
    print()
    messages.append({"role": "assistant", "content": answer})
