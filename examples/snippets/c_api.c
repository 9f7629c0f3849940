/* The example of onepass.h. */
#include <stdio.h>

#include "onepass/onepass.h"

static onepass_tensor tensor(const onepass_buffer* memory, uint64_t index) {
  onepass_tensor t = {0};
  t.buffer = memory;
  t.offset = 16 * index;
  t.dtype = ONEPASS_F32;
  t.rank = 1;
  t.shape[0] = 4;
  return t;
}

int main(void) {
  const float values[8] = {1, 2, 3, 4, 10, 20, 30, 40};
  float row[4] = {0};
  onepass_buffer* memory = NULL;
  onepass_device* device = NULL;
  onepass_plan* plan = NULL;
  onepass_tensor a, b, sum;
  if (onepass_device_open("cpu", NULL, &device) != ONEPASS_OK ||
      onepass_buffer_create(device, 48, &memory) != ONEPASS_OK ||
      onepass_buffer_write(memory, 0, values, sizeof values) != ONEPASS_OK) {
    return 1;
  }
  a = tensor(memory, 0);
  b = tensor(memory, 1);
  sum = tensor(memory, 2);

  // [onepass.h]
  const onepass_tensor add[3] = {a, b, sum};
  onepass_recorder* recorder = NULL;
  onepass_recorder_begin(device, &recorder);
  onepass_op(recorder, "add", add, 3, NULL);  // an error sticks to the recorder
  if (onepass_recorder_compile(recorder, NULL, &plan)) puts(onepass_error_message());
  onepass_recorder_close(recorder);
  onepass_plan_run(plan);  // as often as you like
  onepass_buffer_read(memory, 2 * sizeof row, row, sizeof row);
  // [onepass.h]

  printf("%g\n", (double)row[3]);
  onepass_plan_close(plan);
  onepass_buffer_close(memory);
  onepass_device_close(device);
  return row[0] != 11.0f || row[3] != 44.0f;
}
