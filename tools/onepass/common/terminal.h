// Progress on a terminal, and Ctrl-C.
#pragma once

#include <termios.h>

#include <atomic>
#include <cstdint>
#include <ostream>
#include <string>

namespace onepass::tool {

// Where the program was started without stdin, stdout or stderr, no file that is opened later takes
// its number.
void keep_standard_streams();

// From here on the first Ctrl-C only sets a flag; the second one ends the process. A stdout that
// nobody reads any more makes writes fail instead of ending the process.
void catch_signals();
const std::atomic<bool>& interrupt_flag() noexcept;
inline bool interrupted() noexcept { return interrupt_flag().load(std::memory_order_relaxed); }

// Forgets a Ctrl-C; the next one sets the flag again.
void forget_interrupt();
// Until there is something to read, or the end of it. False after Ctrl-C.
bool wait_for_stdin();
// As wait_for_stdin, but false after any signal.
bool wait_for_stdin_or_signal();

// While it lives, what is typed is kept for the next line and not shown.
class KeptInput {
 public:
  KeptInput();
  ~KeptInput();
  KeptInput(const KeptInput&) = delete;
  KeptInput& operator=(const KeptInput&) = delete;

 private:
  termios before_ = {};
  bool changed_ = false;
};

// A terminal, unless NO_COLOR says no.
bool colour_on(int fd);
// 0: no terminal.
std::size_t columns_of_stdout();

bool stdin_is_terminal() noexcept;
bool stderr_is_terminal() noexcept;
bool stdout_is_terminal() noexcept;

// Set by --quiet: then notes() go nowhere and no progress is shown. Errors and warnings stay.
bool& quiet() noexcept;
// Set by --verbose.
bool& verbose() noexcept;
// stderr, for what is good to know and no warning.
std::ostream& notes();
// stderr, for what only --verbose tells.
std::ostream& details();

// One line on stderr that is redrawn and in the end erased; nothing when that is no terminal.
class ProgressBar {
 public:
  explicit ProgressBar(std::string what);
  ~ProgressBar();
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  // total 0: not known.
  void show(std::uint64_t done, std::uint64_t total);
  void erase();

 private:
  std::string what_;
  const bool enabled_;
  bool drawn_ = false;
  std::uint64_t next_ns_ = 0;
};

}  // namespace onepass::tool
