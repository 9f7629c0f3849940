"""What the comparisons need of llama.cpp: the C functions of llama-cpp-python, used directly so that
as little Python as possible runs between tokens."""

import ctypes
import sys
import time


def load_bindings(folder=None):
    """The llama_cpp module, from a folder or as it is installed; quiet."""
    if folder:
        sys.path.insert(0, folder)
    import llama_cpp  # pylint: disable=import-outside-toplevel

    silent = llama_cpp.llama_log_callback(lambda level, text, data: None)
    llama_cpp.llama_log_set(silent, ctypes.c_void_p(0))
    load_bindings.keep = silent  # or it would be collected while the library still calls it
    llama_cpp.llama_backend_init()
    return llama_cpp


class Model:
    """A model and one sequence."""

    def __init__(self, lib, path, threads, context, batch=512, f32_cache=False, flash=True):
        self.lib = lib
        self.model = lib.llama_model_load_from_file(path.encode(), lib.llama_model_default_params())
        if not self.model:
            raise RuntimeError(f"llama.cpp does not load {path}")
        params = lib.llama_context_default_params()
        params.n_ctx = context
        params.n_batch = params.n_ubatch = batch
        params.n_threads = params.n_threads_batch = threads
        if f32_cache:
            params.type_k = params.type_v = 0
        if not flash:  # which rounds keys and values to f16 on its way
            params.flash_attn_type = 0
        self.context = lib.llama_init_from_model(self.model, params)
        if not self.context:
            raise RuntimeError(f"llama.cpp has no context for {path}")
        self.vocab = lib.llama_vocab_n_tokens(lib.llama_model_get_vocab(self.model))

    def close(self):
        self.lib.llama_free(self.context)
        self.lib.llama_model_free(self.model)

    def clear(self):
        self.lib.llama_memory_clear(self.lib.llama_get_memory(self.context), False)

    def prompt_seconds(self, tokens):
        """Of one pass over all tokens, logits of the last."""
        self.clear()
        ids = (ctypes.c_int32 * len(tokens))(*tokens)
        begin = time.perf_counter()
        self.decode(self.lib.llama_batch_get_one(ids, len(tokens)))
        self.lib.llama_synchronize(self.context)
        return time.perf_counter() - begin

    def decode_seconds(self, tokens):
        """Of one pass per token."""
        self.clear()
        batches = []
        for token in tokens:
            ids = (ctypes.c_int32 * 1)(token)
            batches.append((ids, self.lib.llama_batch_get_one(ids, 1)))
        begin = time.perf_counter()
        for _, batch in batches:
            self.decode(batch)
            self.lib.llama_synchronize(self.context)
        return time.perf_counter() - begin

    def logits(self, tokens):
        """After every token, one list of floats each."""
        self.clear()
        batch = self.lib.llama_batch_init(len(tokens), 0, 1)
        batch.n_tokens = len(tokens)
        for i, token in enumerate(tokens):
            batch.token[i] = token
            batch.pos[i] = i
            batch.n_seq_id[i] = 1
            batch.seq_id[i][0] = 0
            batch.logits[i] = 1
        self.decode(batch)
        rows = [self.lib.llama_get_logits_ith(self.context, i)[:self.vocab]
                for i in range(len(tokens))]
        self.lib.llama_batch_free(batch)
        return rows

    def decode(self, batch):
        code = self.lib.llama_decode(self.context, batch)
        if code != 0:
            raise RuntimeError(f"llama_decode gave {code}")
