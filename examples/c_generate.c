/* c_generate MODEL [PROMPT]: tells a story with a model, piece by piece. */
#include <stdio.h>
#include <string.h>

#include "onepass/onepass.h"

static int print_piece(void* user, const onepass_piece* piece) {
  (void)user;
  fwrite(piece->text, 1, piece->text_bytes, stdout);
  fflush(stdout);
  return 0; /* anything else ends the text */
}

static onepass_result tell(const onepass_model* model, const char* prompt) {
  onepass_sequence_options sequence_options = {sizeof sequence_options, 0, 0};
  onepass_generate_options options = {0};
  onepass_generate_report report = {0};
  onepass_sequence* sequence = NULL;
  onepass_result result;
  sequence_options.context = 512;
  result = onepass_sequence_create(model, &sequence_options, &sequence);
  if (result != ONEPASS_OK) return result;
  options.size = sizeof options;
  options.max_tokens = 60;
  options.temperature = 0.7f;
  options.top_p = 0.95f;
  options.seed = 7;
  options.piece = print_piece;
  report.size = sizeof report;
  printf("%s", prompt);
  result = onepass_generate(sequence, prompt, strlen(prompt), &options, &report);
  if (result == ONEPASS_OK) {
    const double seconds = (double)report.decode_ns * 1e-9;
    printf("\n");
    fprintf(stderr, "%u tokens, %.1f per second\n", report.tokens,
            seconds > 0 ? (report.tokens - 1) / seconds : 0.0);
    if (report.tokens == 0) result = ONEPASS_INTERNAL;
  }
  onepass_sequence_close(sequence);
  return result;
}

int main(int argc, char** argv) {
  const char* prompt = argc > 2 ? argv[2] : "Once upon a time";
  onepass_device* device = NULL;
  onepass_model* model = NULL;
  onepass_result result;
  if (argc < 2) {
    fprintf(stderr, "usage: %s MODEL [PROMPT]\n", argv[0]);
    return 2;
  }
  result = onepass_device_open("auto", NULL, &device);
  if (result == ONEPASS_OK) result = onepass_model_load(device, argv[1], NULL, &model);
  if (result == ONEPASS_OK) {
    onepass_model_info info = {0};
    info.size = sizeof info;
    result = onepass_model_get_info(model, &info);
    if (result == ONEPASS_OK) {
      fprintf(stderr, "%s, %s, %u layers\n", info.name, info.architecture, info.layers);
    }
  }
  if (result == ONEPASS_OK) result = tell(model, prompt);
  if (result != ONEPASS_OK) {
    fprintf(stderr, "%s: %s\n", onepass_result_name(result), onepass_error_message());
  }
  onepass_model_close(model);
  onepass_device_close(device);
  return result != ONEPASS_OK;
}
