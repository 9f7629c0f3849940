#include "line_editor.h"

#include <histedit.h>
#include <langinfo.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <clocale>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "chat/wide_text.h"
#include "common/terminal.h"

namespace onepass::tool {
namespace {

constexpr int most_entries = 1000;
constexpr wchar_t invisible = 1;  // around what of the prompt takes no column
constexpr wchar_t paste_end[] = L"\033[201~";

std::atomic<bool> resized{false};
extern "C" void on_resize(int) { resized.store(true, std::memory_order_relaxed); }

// Every key that common terminals send and libedit does not know by itself.
struct Key {
  const char *keys, *function;
};
constexpr Key keys[] = {
    {"\033[1~", "ed-move-to-beg"},      {"\033[4~", "ed-move-to-end"},
    {"\033[H", "ed-move-to-beg"},       {"\033[F", "ed-move-to-end"},
    {"\033OH", "ed-move-to-beg"},       {"\033OF", "ed-move-to-end"},
    {"\033[3~", "ed-delete-next-char"}, {"\033[1;5D", "ed-prev-word"},
    {"\033[1;5C", "em-next-word"},      {"\022", "em-inc-search-prev"},
    {"\033[200~", "onepass-paste"},     {"\033\r", "onepass-new-line"},
    {"\033\n", "onepass-new-line"},
};

// Characters of stdin. Ctrl-C ends the line, a new size of the window draws it again.
int read_character(EditLine* editor, wchar_t* out) {
  Utf8Decoder decoder;
  while (true) {
    if (resized.exchange(false)) el_resize(editor);
    if (interrupted()) return -1;
    if (!wait_for_stdin_or_signal()) continue;
    unsigned char byte = 0;
    const ssize_t n = ::read(STDIN_FILENO, &byte, 1);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return static_cast<int>(n);
    if (const auto character = decoder.next(byte)) {
      *out = *character;
      return 1;
    }
  }
}

// What comes between the marks that terminals put around a paste, line ends included.
unsigned char paste(EditLine* editor, int) {
  std::wstring text;
  wchar_t character = 0;
  while (!text.ends_with(paste_end)) {
    if (el_wgetc(editor, &character) != 1) return CC_EOF;
    text += character == L'\r' ? L'\n' : character;
  }
  text.resize(text.size() - std::wstring_view(paste_end).size());
  if (text.ends_with(L'\n')) text.pop_back();
  if (!text.empty() && el_winsertstr(editor, text.c_str()) != 0) return CC_ERROR;
  return CC_REFRESH;
}

unsigned char new_line(EditLine* editor, int) {
  return el_winsertstr(editor, L"\n") == 0 ? CC_REFRESH : CC_ERROR;
}

void use_utf8() {
  std::setlocale(LC_CTYPE, "");
  if (std::string_view(nl_langinfo(CODESET)) != "UTF-8") std::setlocale(LC_CTYPE, "C.UTF-8");
}

}  // namespace

struct LineEditor::State {
  EditLine* editor = nullptr;
  HistoryW* history = nullptr;
  std::wstring prompt;
  bool colour = false;
};

namespace {

wchar_t* prompt_of(EditLine* editor) {
  LineEditor::State* state = nullptr;
  el_wget(editor, EL_CLIENTDATA, &state);
  return state->prompt.data();
}

}  // namespace

bool LineEditor::is_possible() {
  const char* term = std::getenv("TERM");
  return stdin_is_terminal() && stderr_is_terminal() && term != nullptr && *term != '\0' &&
         std::strcmp(term, "dumb") != 0;
}

LineEditor::LineEditor(bool colour) : state_(std::make_unique<State>()) {
  use_utf8();
  state_->colour = colour;
  EditLine* editor = state_->editor = el_init("onepass", stdin, stderr, stderr);
  el_wset(editor, EL_CLIENTDATA, state_.get());
  el_wset(editor, EL_PROMPT_ESC, prompt_of, invisible);
  el_wset(editor, EL_EDITOR, L"emacs");
  el_wset(editor, EL_GETCFN, read_character);
  state_->history = history_winit();
  HistEventW event;
  history_w(state_->history, &event, H_SETSIZE, most_entries);
  history_w(state_->history, &event, H_SETUNIQUE, 1);
  el_wset(editor, EL_HIST, history_w, state_->history);
  el_set(editor, EL_ADDFN, "onepass-paste", "insert a paste as it is", paste);
  el_set(editor, EL_ADDFN, "onepass-new-line", "start another line of the message", new_line);
  for (const Key& key : keys) el_set(editor, EL_BIND, key.keys, key.function, nullptr);
  el_source(editor, nullptr);  // ~/.editrc
  struct sigaction action = {};
  action.sa_handler = on_resize;  // without SA_RESTART: the wait for a character ends
  sigemptyset(&action.sa_mask);
  sigaction(SIGWINCH, &action, nullptr);
}

LineEditor::~LineEditor() {
  signal(SIGWINCH, SIG_DFL);
  history_wend(state_->history);
  el_end(state_->editor);
}

void LineEditor::remember(std::span<const std::string> entries) {
  HistEventW event;
  for (const std::string& entry : entries) {
    history_w(state_->history, &event, H_ENTER, to_wide(entry).c_str());
  }
}

Result<std::optional<std::string>> LineEditor::line(const std::string& prompt) {
  const auto hidden = [&](const wchar_t* sequence) {
    return state_->colour ? invisible + std::wstring(sequence) + invisible : std::wstring();
  };
  state_->prompt = hidden(L"\033[1;32m") + to_wide(prompt) + hidden(L"\033[0m");
  constexpr std::string_view paste_on = "\033[?2004h", paste_off = "\033[?2004l";
  std::fputs(paste_on.data(), stderr);
  int n = 0;
  const KeptInput kept;  // until the editor reads, and where it left the terminal otherwise
  const wchar_t* text = el_wgets(state_->editor, &n);
  std::fputs(paste_off.data(), stderr);
  if (interrupted()) {
    std::fputc('\n', stderr);
    return fail(ErrorCode::cancelled, "interrupted while reading stdin");
  }
  if (text == nullptr || n <= 0) return std::optional<std::string>();
  std::wstring_view line(text, static_cast<std::size_t>(n));
  if (line.ends_with(L'\n')) line.remove_suffix(1);
  return std::optional(to_utf8(line));
}

}  // namespace onepass::tool
