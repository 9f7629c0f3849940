// The C API: devices, buffers, recorded passes, models. C99 and later; C++ has onepass.hpp.
//
//   const onepass_tensor add[3] = {a, b, sum};
//   onepass_recorder* recorder = NULL;
//   onepass_recorder_begin(device, &recorder);
//   onepass_op(recorder, "add", add, 3, NULL);  // an error sticks to the recorder
//   if (onepass_recorder_compile(recorder, NULL, &plan)) puts(onepass_error_message());
//   onepass_recorder_close(recorder);
//   onepass_plan_run(plan);  // as often as you like
//   onepass_buffer_read(memory, 2 * sizeof row, row, sizeof row);
//
// Functions that can fail return a result, and onepass_error_message() tells the reason. None of
// them aborts or throws. A call that fails leaves its output arguments alone unless it says more.
//
// Structs that begin with `size` grow in later versions: set it to sizeof the struct, all other
// fields to 0. 0 means the default everywhere. A null pointer to options means all defaults. A
// struct longer than the library knows is refused unless its unknown part is 0.
//
// Handles: each _close ends one and takes null. An object keeps alive what it was made from, so
// they may be closed in any order, save that running a plan whose buffer was closed is
// ONEPASS_STALE. Devices, buffers, plans and models may be shared between threads; recorders and
// sequences are for one thread at a time.
#ifndef ONEPASS_ONEPASS_H
#define ONEPASS_ONEPASS_H

#include <stddef.h>
#include <stdint.h>

#include "onepass/version.h"

// Grows whenever functions, fields or values are added; what there is stays as it is for as long
// as the library's SONAME does.
#define ONEPASS_API_VERSION 2

#if defined(__GNUC__)
#define ONEPASS_API __attribute__((visibility("default")))
#else
#define ONEPASS_API
#endif

// Enums have 32 bits; in C++ any number is a value of them, as in C.
#ifdef __cplusplus
#define ONEPASS_ENUM : int32_t
extern "C" {
#else
#define ONEPASS_ENUM
#endif

typedef enum onepass_result ONEPASS_ENUM {
  ONEPASS_OK = 0,
  ONEPASS_INVALID_ARGUMENT = 1,
  ONEPASS_INVALID_STATE = 2,
  ONEPASS_UNSUPPORTED = 3,
  ONEPASS_NOT_FOUND = 4,
  ONEPASS_PARSE = 5,
  ONEPASS_LIMIT = 6,
  ONEPASS_IO = 7,
  ONEPASS_OUT_OF_MEMORY = 8,
  ONEPASS_DEVICE_LOST = 9,
  ONEPASS_KERNEL_BUILD = 10,
  ONEPASS_SUBMISSION_FAILED = 11,  // the same call may succeed when repeated
  ONEPASS_STALE = 12,
  ONEPASS_CANCELLED = 13,
  ONEPASS_INTERNAL = 14
} onepass_result;

// "invalid_argument"; "unknown" for other numbers.
ONEPASS_API const char* onepass_result_name(onepass_result result);
// Why the last call that failed on this thread did so; "" if none has. Valid until the next call
// that fails on this thread.
ONEPASS_API const char* onepass_error_message(void);

ONEPASS_API const char* onepass_version(void);   // of the library: "0.1.0"
ONEPASS_API uint32_t onepass_api_version(void);  // ONEPASS_API_VERSION of the library

// ---- devices ----

typedef struct onepass_device onepass_device;

typedef struct onepass_device_info {
  size_t size;
  const char* name;         // "cpu", "cuda:0"
  const char* description;  // what the vendor calls it
  const char* reason;       // why it cannot be opened, "" where it can
  uint32_t available;       // 0 or 1
  uint32_t unified_memory;  // 0 or 1: buffers have a host pointer. Of opened devices only
  uint64_t memory_bytes;    // of opened devices only
  uint32_t compute_units;   // of opened devices only; CPU: worker threads
} onepass_device_info;

typedef struct onepass_device_options {
  size_t size;
  uint32_t threads;  // CPU: 0 = all cores
  uint32_t serial;   // 1: each dispatch waits for the one before; same bits
} onepass_device_options;

// Every device the library knows of, those it cannot open included. Texts are the thread's: valid
// until its next onepass_device_list_entry.
ONEPASS_API onepass_result onepass_device_count(size_t* count);
ONEPASS_API onepass_result onepass_device_list_entry(size_t index, onepass_device_info* info);

// "cpu", "cuda:0", "null", or "auto": the first card that can be opened, else the CPU. Never opens
// another device than asked for.
ONEPASS_API onepass_result onepass_device_open(const char* name,
                                               const onepass_device_options* options,
                                               onepass_device** device);
ONEPASS_API onepass_result onepass_device_get_info(const onepass_device* device,
                                                   onepass_device_info* info);
// Waits until everything submitted so far has completed.
ONEPASS_API onepass_result onepass_device_wait(const onepass_device* device);
ONEPASS_API void onepass_device_close(onepass_device* device);

// ---- buffers ----

typedef struct onepass_buffer onepass_buffer;

// Zero-filled.
ONEPASS_API onepass_result onepass_buffer_create(const onepass_device* device, uint64_t bytes,
                                                 onepass_buffer** buffer);
// The caller's memory, which must outlive the buffer and every pass that uses it. Devices with
// unified memory only.
ONEPASS_API onepass_result onepass_buffer_wrap(const onepass_device* device, void* memory,
                                               uint64_t bytes, onepass_buffer** buffer);
ONEPASS_API onepass_result onepass_buffer_size(const onepass_buffer* buffer, uint64_t* bytes);
// These three wait for the last submission. A pointer stays valid as long as the buffer, but
// nothing orders it with later passes: wait for them before using it.
ONEPASS_API onepass_result onepass_buffer_map(const onepass_buffer* buffer, void** pointer);
ONEPASS_API onepass_result onepass_buffer_write(const onepass_buffer* buffer, uint64_t offset,
                                                const void* bytes, size_t n);
ONEPASS_API onepass_result onepass_buffer_read(const onepass_buffer* buffer, uint64_t offset,
                                               void* bytes, size_t n);
ONEPASS_API void onepass_buffer_close(onepass_buffer* buffer);

// ---- tensors ----

typedef enum onepass_dtype ONEPASS_ENUM {
  ONEPASS_F32 = 0,
  ONEPASS_F16 = 1,
  ONEPASS_BF16 = 2,
  ONEPASS_U8 = 3,
  ONEPASS_U16 = 4,
  ONEPASS_U32 = 5,
  ONEPASS_I32 = 6,
  // Blocks of GGUF files.
  ONEPASS_Q4_0 = 7,
  ONEPASS_Q4_1 = 8,
  ONEPASS_Q5_0 = 9,
  ONEPASS_Q5_1 = 10,
  ONEPASS_Q8_0 = 11,
  ONEPASS_Q2_K = 12,
  ONEPASS_Q3_K = 13,
  ONEPASS_Q4_K = 14,
  ONEPASS_Q5_K = 15,
  ONEPASS_Q6_K = 16,
  ONEPASS_IQ4_NL = 17,
  ONEPASS_IQ4_XS = 18,
  ONEPASS_MXFP4 = 19,
  ONEPASS_NVFP4 = 20,
  ONEPASS_TQ1_0 = 21,
  ONEPASS_TQ2_0 = 22,
  ONEPASS_Q1_0 = 23,
  ONEPASS_Q2_0 = 24,
  ONEPASS_IQ3_S = 25,
  ONEPASS_IQ3_XXS = 26,
  ONEPASS_IQ2_XS = 27,
  ONEPASS_IQ2_S = 28,
  ONEPASS_IQ2_XXS = 29,
  ONEPASS_IQ1_S = 30,
  ONEPASS_IQ1_M = 31
} onepass_dtype;

// A row-major array in a buffer, or scratch memory of a recorder. All zeros: no tensor, for inputs
// that an op can do without.
typedef struct onepass_tensor {
  const onepass_buffer* buffer;
  uint64_t offset;  // bytes
  onepass_dtype dtype;
  uint32_t rank;      // 0 to 4
  uint32_t shape[4];  // the last dimension is contiguous
  uint32_t scratch;   // set by onepass_recorder_scratch
  uint32_t reserved;  // 0
} onepass_tensor;

// Bytes that a tensor of this type and shape takes.
ONEPASS_API onepass_result onepass_tensor_bytes(onepass_dtype dtype, uint32_t rank,
                                                const uint32_t* shape, uint64_t* bytes);

// ---- recorded passes ----

typedef struct onepass_recorder onepass_recorder;
typedef struct onepass_plan onepass_plan;
typedef struct onepass_submission onepass_submission;

typedef enum onepass_rope_mode ONEPASS_ENUM {
  ONEPASS_ROPE_INTERLEAVED = 0,  // pairs (2i, 2i + 1)
  ONEPASS_ROPE_NEOX = 1          // pairs (i, i + rope_dim / 2)
} onepass_rope_mode;

// An op takes the fields that docs/c-api.md lists for it; any other must be 0.
typedef struct onepass_op_options {
  size_t size;
  float eps;           // norms
  float factor;        // scale: y = factor * x
  float cap;           // softcap
  float scale;         // softmax, embed, attention: 0 = the op's default
  float theta;         // rope: 0 = 10000
  uint32_t rope_mode;  // rope: onepass_rope_mode
  uint32_t rope_dim;   // rope: 0 = all of a head
  uint32_t start;      // slice, put: first column
  uint32_t keep_last;  // transpose: 1 = swap the two dimensions before the last
  uint32_t kv_len;     // attention: keys in the cache, the rows' own included
  uint32_t window;     // attention: keys a row sees, itself included; 0 = all
  uint32_t full;       // attention: 1 = not causal
} onepass_op_options;

// What onepass_op takes. Texts live as long as the library.
typedef struct onepass_op_info {
  size_t size;
  const char* name;     // "rms_norm"
  const char* tensors;  // "x weight? out": inputs, then outputs; ? may be no tensor
  const char* options;  // "eps": fields of onepass_op_options; "" if none
} onepass_op_info;

typedef struct onepass_plan_options {
  size_t size;
  uint32_t no_fuse;   // 1: every op is a dispatch of its own
  uint32_t exact;     // 1: only fusions that keep every bit
  const char* label;  // for profiles
} onepass_plan_options;

typedef struct onepass_plan_info {
  size_t size;
  uint32_t dispatches;  // after fusing
  uint32_t barriers;    // levels - 1: issued where a device orders by levels
  uint32_t levels;
  uint32_t longest_path;
  uint32_t fused;      // fusions done
  uint32_t validated;  // 1: the order was proven
  uint64_t arena_bytes;
} onepass_plan_info;

ONEPASS_API onepass_result onepass_op_count(size_t* count);
ONEPASS_API onepass_result onepass_op_get_info(size_t index, onepass_op_info* info);

ONEPASS_API onepass_result onepass_recorder_begin(const onepass_device* device,
                                                  onepass_recorder** recorder);
// Memory that only this pass needs: it may be shared, fused away or left unwritten.
ONEPASS_API onepass_result onepass_recorder_scratch(onepass_recorder* recorder, onepass_dtype dtype,
                                                    uint32_t rank, const uint32_t* shape,
                                                    onepass_tensor* tensor);
// Records one op; nothing runs yet. After an error the recorder can only be closed: later calls
// return the first error again.
ONEPASS_API onepass_result onepass_op(onepass_recorder* recorder, const char* name,
                                      const onepass_tensor* tensors, size_t n_tensors,
                                      const onepass_op_options* options);
// Ends the recording, whatever it returns; the recorder is still to be closed.
ONEPASS_API onepass_result onepass_recorder_compile(onepass_recorder* recorder,
                                                    const onepass_plan_options* options,
                                                    onepass_plan** plan);
ONEPASS_API void onepass_recorder_close(onepass_recorder* recorder);

// Runs the pass and waits. Nothing is allocated.
ONEPASS_API onepass_result onepass_plan_run(const onepass_plan* plan);
// Submits without waiting. Submissions of one device run in the order they were made.
ONEPASS_API onepass_result onepass_plan_run_async(const onepass_plan* plan,
                                                  onepass_submission** submission);
ONEPASS_API onepass_result onepass_plan_get_info(const onepass_plan* plan, onepass_plan_info* info);
ONEPASS_API void onepass_plan_close(onepass_plan* plan);

ONEPASS_API onepass_result onepass_submission_wait(const onepass_submission* submission);
ONEPASS_API onepass_result onepass_submission_is_done(const onepass_submission* submission,
                                                      uint32_t* done);
// Neither waits nor cancels.
ONEPASS_API void onepass_submission_close(onepass_submission* submission);

// ---- models ----

typedef struct onepass_model onepass_model;
typedef struct onepass_sequence onepass_sequence;

// Bytes of weights read so far and of all, 0 if unknown. Another value than 0 ends loading with
// ONEPASS_CANCELLED.
typedef int (*onepass_progress_fn)(void* user, uint64_t done, uint64_t total);

typedef struct onepass_model_options {
  size_t size;
  uint32_t no_tokenizer;  // 1: token ids only
  uint32_t reserved;
  onepass_progress_fn progress;
  void* user;
} onepass_model_options;

typedef struct onepass_model_info {
  size_t size;
  const char* name;             // texts live as long as the model
  const char* architecture;     // "llama"
  const char* tokenizer_error;  // why there is no tokenizer, "" where there is one
  uint32_t layers;
  uint32_t dim;
  uint32_t vocab;
  uint32_t context;  // tokens, as trained
  uint64_t weight_bytes;
} onepass_model_info;

// A GGUF file, a folder with config.json and safetensors, or "synthetic:PRESET:FORMAT".
ONEPASS_API onepass_result onepass_model_load(const onepass_device* device, const char* path,
                                              const onepass_model_options* options,
                                              onepass_model** model);
ONEPASS_API onepass_result onepass_model_get_info(const onepass_model* model,
                                                  onepass_model_info* info);
ONEPASS_API void onepass_model_close(onepass_model* model);

typedef enum onepass_token_flags ONEPASS_ENUM {
  ONEPASS_NO_SPECIAL = 1,     // tokenize: without the begin and end tokens the vocabulary asks for
  ONEPASS_PARSE_SPECIAL = 2,  // tokenize: control tokens written in the text count as such
  ONEPASS_SHOW_SPECIAL = 4,   // detokenize: print control tokens
  ONEPASS_AS_PROMPT = 8       // tokenize: as onepass_generate reads a prompt that begins a text:
                              // with the begin token where the vocabulary asks for one and the
                              // text has none, never with an end token
} onepass_token_flags;

// Both set *n to the number of ids or bytes there are. A capacity below it is ONEPASS_LIMIT and
// writes nothing; null with capacity 0 only counts. Texts are bytes, not ended by 0.
ONEPASS_API onepass_result onepass_tokenize(const onepass_model* model, const char* text,
                                            size_t text_bytes, uint32_t flags, uint32_t* ids,
                                            size_t capacity, size_t* n);
ONEPASS_API onepass_result onepass_detokenize(const onepass_model* model, const uint32_t* ids,
                                              size_t n_ids, uint32_t flags, char* text,
                                              size_t capacity, size_t* n);

typedef struct onepass_chat_options {
  size_t size;
  const char* chat_template;  // a Jinja template; null: the model's
  const char* tools;          // JSON list; null: none
  const char* variables;  // JSON object for the template, {"enable_thinking": false}; null: none
  uint32_t no_answer;     // 1: ends with the messages, not with the start of an answer
  uint32_t reserved;
} onepass_chat_options;

// A conversation as the model wants it written. `messages` is a JSON list of objects,
// [{"role": "user", "content": "Hello"}], with more fields where the template knows them. Sets *n
// and writes as onepass_detokenize does. The text becomes ids with ONEPASS_PARSE_SPECIAL |
// ONEPASS_AS_PROMPT.
ONEPASS_API onepass_result onepass_chat_prompt(const onepass_model* model, const char* messages,
                                               const onepass_chat_options* options, char* text,
                                               size_t capacity, size_t* n);

// One text: its tokens so far and what was computed for them.
typedef struct onepass_sequence_options {
  size_t size;
  uint32_t context;  // tokens; 0 = as trained
  uint32_t kv_f32;   // 1: keys and values in f32 instead of f16
} onepass_sequence_options;

ONEPASS_API onepass_result onepass_sequence_create(const onepass_model* model,
                                                   const onepass_sequence_options* options,
                                                   onepass_sequence** sequence);
// Appends tokens.
ONEPASS_API onepass_result onepass_sequence_append(onepass_sequence* sequence, const uint32_t* ids,
                                                   size_t n_ids);
// Scores of every token [vocab] to follow the last position that was computed; `n` must be vocab.
// After onepass_generate that position is the one before the last token it made.
ONEPASS_API onepass_result onepass_sequence_logits(const onepass_sequence* sequence, float* logits,
                                                   size_t n);
// Tokens that were computed, and the most there can be. Either may be null.
ONEPASS_API onepass_result onepass_sequence_length(const onepass_sequence* sequence,
                                                   uint32_t* length, uint32_t* context);
// Forgets all but the first `length` tokens; logits and generate then need new ones first.
ONEPASS_API onepass_result onepass_sequence_truncate(onepass_sequence* sequence, uint32_t length);
// From any thread, ends the call that the sequence is in, between two tokens or two chunks of the
// prompt: generate ends with ONEPASS_STOP_CALLER, append is ONEPASS_CANCELLED and appends nothing.
// Without such a call it does nothing.
ONEPASS_API onepass_result onepass_sequence_cancel(const onepass_sequence* sequence);
ONEPASS_API void onepass_sequence_close(onepass_sequence* sequence);

// UTF-8 that ends between code points, not ended by 0; empty where the token completes none. The
// last piece of a text may have no token.
typedef struct onepass_piece {
  const char* text;
  size_t text_bytes;
  uint32_t token;
  uint32_t has_token;
} onepass_piece;

// Another value than 0 ends the text here. Must not use the sequence.
typedef int (*onepass_piece_fn)(void* user, const onepass_piece* piece);

typedef struct onepass_generate_options {
  size_t size;
  uint32_t max_tokens;  // 0 = 256
  float temperature;    // 0: the most likely token, whatever the rest says
  uint32_t top_k;       // 0 = all
  float top_p;          // 0 = 1 = all
  float min_p;
  uint32_t reserved;
  uint64_t seed;
  onepass_piece_fn piece;
  void* user;
} onepass_generate_options;

typedef enum onepass_stop ONEPASS_ENUM {
  ONEPASS_STOP_END_OF_TEXT = 0,
  ONEPASS_STOP_MAX_TOKENS = 1,
  ONEPASS_STOP_CONTEXT_FULL = 2,
  ONEPASS_STOP_CALLER = 3
} onepass_stop;

typedef struct onepass_generate_report {
  size_t size;
  onepass_stop stop;
  uint32_t prompt_tokens;
  uint32_t tokens;  // generated; without the one that ended the text
  uint32_t reserved;
  uint64_t prefill_ns;
  uint64_t first_token_ns;  // from the call; 0: there was none
  uint64_t decode_ns;       // of the tokens after the first
} onepass_generate_report;

// Continues the sequence with a prompt and what the model makes of it. A prompt that exceeds the
// context is an error, never cut. `report` may be null.
ONEPASS_API onepass_result onepass_generate(onepass_sequence* sequence, const char* prompt,
                                            size_t prompt_bytes,
                                            const onepass_generate_options* options,
                                            onepass_generate_report* report);
ONEPASS_API onepass_result onepass_generate_tokens(onepass_sequence* sequence, const uint32_t* ids,
                                                   size_t n_ids,
                                                   const onepass_generate_options* options,
                                                   onepass_generate_report* report);

#ifdef __cplusplus
}
#endif

#endif
