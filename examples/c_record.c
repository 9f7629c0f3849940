/* Record two ops once, replay them a thousand times, read the result. */
#include <stdio.h>

#include "onepass/onepass.h"

enum { dim = 64, replays = 1000 };

/* 1 after an error, which it prints. */
static int failed(const char* what, onepass_result result) {
  if (result == ONEPASS_OK) return 0;
  fprintf(stderr, "%s: %s: %s\n", what, onepass_result_name(result), onepass_error_message());
  return 1;
}

static onepass_tensor row(const onepass_buffer* memory, uint64_t index) {
  onepass_tensor t = {0};
  t.buffer = memory;
  t.offset = index * dim * sizeof(float);
  t.dtype = ONEPASS_F32;
  t.rank = 1;
  t.shape[0] = dim;
  return t;
}

/* sum = sum + 2 * step */
static int record(const onepass_device* device, const onepass_buffer* memory, onepass_plan** plan) {
  const onepass_tensor sum = row(memory, 0), step = row(memory, 1);
  onepass_op_options twice = {0};
  onepass_tensor doubled;
  onepass_recorder* recorder = NULL;
  onepass_result result = onepass_recorder_begin(device, &recorder);
  twice.size = sizeof twice;
  twice.factor = 2.0f;
  if (result == ONEPASS_OK) {
    const uint32_t shape[1] = {dim};
    result = onepass_recorder_scratch(recorder, ONEPASS_F32, 1, shape, &doubled);
  }
  if (result == ONEPASS_OK) {
    const onepass_tensor scale[2] = {step, doubled}, add[3] = {sum, doubled, sum};
    result = onepass_op(recorder, "scale", scale, 2, &twice);
    if (result == ONEPASS_OK) result = onepass_op(recorder, "add", add, 3, NULL);
  }
  if (result == ONEPASS_OK) result = onepass_recorder_compile(recorder, NULL, plan);
  onepass_recorder_close(recorder);
  return failed("record", result);
}

static int run(const onepass_device* device, const onepass_buffer* memory) {
  float values[2 * dim] = {0};
  onepass_plan* plan = NULL;
  int bad = record(device, memory, &plan);
  for (int i = 0; i < dim; ++i) values[dim + i] = (float)i;
  bad = bad || failed("write", onepass_buffer_write(memory, 0, values, sizeof values));
  for (int i = 0; i < replays && !bad; ++i) bad = failed("run", onepass_plan_run(plan));
  bad = bad || failed("read", onepass_buffer_read(memory, 0, values, sizeof values));
  for (int i = 0; i < dim && !bad; ++i) bad = values[i] != 2.0f * replays * (float)i;
  if (!bad) printf("%d replays: sum[3] = %g\n", replays, (double)values[3]);
  onepass_plan_close(plan);
  return bad;
}

int main(void) {
  onepass_device* device = NULL;
  onepass_buffer* memory = NULL;
  int bad = failed("open", onepass_device_open("cpu", NULL, &device));
  bad = bad || failed("create", onepass_buffer_create(device, 2 * dim * sizeof(float), &memory));
  bad = bad || run(device, memory);
  onepass_buffer_close(memory);
  onepass_device_close(device);
  return bad;
}
