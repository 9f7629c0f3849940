"""python_generate.py MODEL [PROMPT]: tells a story, then shows what the model thought of first."""
import sys

import onepass

model = onepass.Model(sys.argv[1], onepass.Device("auto"))
prompt = sys.argv[2] if len(sys.argv) > 2 else "Once upon a time"
print(prompt, end="")
told = model.generate(prompt, max_tokens=60, temperature=0.7, top_p=0.95, seed=7, context=512,
                      on_piece=lambda text, token: print(text, end="", flush=True))
print(f"\n{len(told.tokens)} tokens, stopped by {told.stop}", file=sys.stderr)

sequence = model.sequence(context=512)
sequence.append(model.tokenize(prompt))
for token in sequence.logits().argsort()[::-1][:3]:
    print(repr(model.detokenize([token])), file=sys.stderr)
