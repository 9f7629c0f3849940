import onepass

model = onepass.Model("model.gguf")
for piece in model.stream("Once upon a time"):
    print(piece.text, end="", flush=True)
