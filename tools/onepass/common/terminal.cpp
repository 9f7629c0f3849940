#include "terminal.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iostream>

#include "core/os.h"

namespace onepass::tool {
namespace {

constexpr std::uint64_t redraw_ns = 50'000'000;
constexpr std::uint64_t bar_width = 30;

std::atomic<bool> flag{false};
static_assert(std::atomic<bool>::is_always_lock_free);

// A byte is in it after Ctrl-C, so that a wait for input cannot miss one that came just before.
int wake[2] = {-1, -1};

// How the terminal was before any KeptInput.
termios loud = {};
volatile sig_atomic_t n_kept = 0;

extern "C" void on_interrupt(int) {
  const int saved = errno;
  if (flag.load(std::memory_order_relaxed)) {
    if (n_kept > 0) tcsetattr(STDIN_FILENO, TCSANOW, &loud);
    signal(SIGINT, SIG_DFL);
    raise(SIGINT);
  }
  flag.store(true, std::memory_order_relaxed);
  const bool told = wake[1] >= 0 && write(wake[1], "", 1) == 1;
  static_cast<void>(told);  // a full pipe wakes as well
  errno = saved;
}

}  // namespace

void keep_standard_streams() {
  // Opened the wrong way round, so that their use is the error it would be otherwise.
  for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; ++fd) {
    if (fcntl(fd, F_GETFD) >= 0 || errno != EBADF) continue;
    const int opened = open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY);
    static_cast<void>(opened);  // the lowest number that is free
  }
}

void catch_signals() {
  if (wake[0] < 0 && pipe(wake) == 0) {
    for (const int end : wake) {
      fcntl(end, F_SETFL, O_NONBLOCK);
      fcntl(end, F_SETFD, FD_CLOEXEC);
    }
  }
  struct sigaction action = {};
  action.sa_handler = on_interrupt;
  action.sa_flags = 0;  // without SA_RESTART: a blocked read ends
  sigemptyset(&action.sa_mask);
  sigaction(SIGINT, &action, nullptr);
  signal(SIGPIPE, SIG_IGN);
}

const std::atomic<bool>& interrupt_flag() noexcept { return flag; }

void forget_interrupt() {
  char byte;
  while (wake[0] >= 0 && read(wake[0], &byte, 1) == 1) {
  }
  flag.store(false, std::memory_order_relaxed);
  catch_signals();
}

bool wait_for_stdin_or_signal() {
  pollfd both[2] = {{STDIN_FILENO, POLLIN, 0}, {wake[0], POLLIN, 0}};
  if (poll(both, 2, -1) < 0) return errno != EINTR;  // reading says what is wrong
  return both[0].revents != 0;
}

bool wait_for_stdin() {
  while (!interrupted()) {
    if (wait_for_stdin_or_signal()) return !interrupted();
  }
  return false;
}

KeptInput::KeptInput() {
  if (!stdin_is_terminal() || tcgetattr(STDIN_FILENO, &before_) != 0) return;
  if (n_kept == 0) loud = before_;
  termios silent = before_;
  silent.c_lflag &= ~static_cast<tcflag_t>(ECHO | ICANON);
  changed_ = tcsetattr(STDIN_FILENO, TCSADRAIN, &silent) == 0;
  if (changed_) n_kept = n_kept + 1;
}

KeptInput::~KeptInput() {
  if (!changed_) return;
  tcsetattr(STDIN_FILENO, TCSADRAIN, &before_);
  n_kept = n_kept - 1;
}

bool colour_on(int fd) {
  const char* no = std::getenv("NO_COLOR");
  const char* term = std::getenv("TERM");
  return isatty(fd) != 0 && (no == nullptr || *no == '\0') && term != nullptr &&
         std::strcmp(term, "dumb") != 0;
}

std::size_t columns_of_stdout() {
  winsize size = {};
  return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

bool stdin_is_terminal() noexcept {
  static const bool is = isatty(STDIN_FILENO) != 0;
  return is;
}
bool stderr_is_terminal() noexcept {
  static const bool is = isatty(STDERR_FILENO) != 0;
  return is;
}
bool stdout_is_terminal() noexcept {
  static const bool is = isatty(STDOUT_FILENO) != 0;
  return is;
}

bool& quiet() noexcept {
  static bool is = false;
  return is;
}

bool& verbose() noexcept {
  static bool is = false;
  return is;
}

std::ostream& notes() {
  static std::ostream nowhere(nullptr);
  return quiet() ? nowhere : std::cerr;
}

std::ostream& details() {
  static std::ostream nowhere(nullptr);
  return verbose() ? notes() : nowhere;
}

// Work that is done before the first redraw shows no bar at all.
ProgressBar::ProgressBar(std::string what)
    : what_(std::move(what)),
      enabled_(stderr_is_terminal() && !quiet()),
      next_ns_(enabled_ ? os::now_ns() + redraw_ns : 0) {}

ProgressBar::~ProgressBar() { erase(); }

void ProgressBar::show(std::uint64_t done, std::uint64_t total) {
  if (!enabled_) return;
  const std::uint64_t now = os::now_ns();
  if (now < next_ns_) return;
  next_ns_ = now + redraw_ns;
  drawn_ = true;
  if (total == 0) {
    std::fprintf(stderr, "\r%s  %.0f MB\033[K", what_.c_str(), static_cast<double>(done) / 1e6);
    return;
  }
  const double share = std::min(1.0, static_cast<double>(done) / static_cast<double>(total));
  const auto filled = static_cast<std::size_t>(share * static_cast<double>(bar_width));
  std::string bar(filled, '#');
  bar.append(bar_width - filled, '.');
  std::fprintf(stderr, "\r%s  [%s] %3.0f %%\033[K", what_.c_str(), bar.c_str(), share * 100.0);
}

void ProgressBar::erase() {
  if (!drawn_) return;
  std::fputs("\r\033[K", stderr);
  drawn_ = false;
}

}  // namespace onepass::tool
