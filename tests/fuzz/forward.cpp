// The table of architectures names the forward passes; no fuzz program runs one.
#include "model/architecture.h"

namespace onepass::llm {

Tensor llama(GraphSession&, const ForwardArgs&) { return {}; }
Tensor qwen3(GraphSession&, const ForwardArgs&) { return {}; }
Tensor gemma(GraphSession&, const ForwardArgs&) { return {}; }

}  // namespace onepass::llm
