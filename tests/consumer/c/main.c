/* A program in C outside the source tree: it sees only what was installed. */
#include <onepass/onepass.h>
#include <stdio.h>
#include <string.h>

int main(int argc, char** argv) {
  onepass_device* device = NULL;
  if (argc != 2 || strcmp(onepass_version(), argv[1]) != 0) {
    fprintf(stderr, "library says %s\n", onepass_version());
    return 1;
  }
  if (onepass_device_open("cpu", NULL, &device) != ONEPASS_OK) {
    fprintf(stderr, "%s\n", onepass_error_message());
    return 1;
  }
  onepass_device_close(device);
  printf("onepass %s from C\n", onepass_version());
  return 0;
}
