#include "man_page.h"

#include <cctype>

#include "onepass/version.h"

namespace onepass::tool {
namespace {

// Text that roff prints as it is.
std::string plain(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '\\') {
      out += "\\e";
    } else if (c == '-') {
      out += "\\-";
    } else if (c == '"') {
      out += "\\(dq";
    } else if (c == '\'') {
      out += "\\(aq";
    } else if (c == '`') {
      out += "\\(ga";
    } else if (c == '^') {
      out += "\\(ha";
    } else if (c == '~') {
      out += "\\(ti";
    } else {
      out += c;
    }
  }
  // A point at the begin of a line is a request.
  return out.starts_with('.') ? "\\&" + out : out;
}

std::string upper(std::string text) {
  for (char& c : text) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return text;
}

std::string page_name(const CommandRow& c) {
  std::string name;
  for (const std::string& word : c.words) name += (name.empty() ? "" : "-") + word;
  return name;
}

std::string reference(const CommandRow& c) { return ".BR " + plain(page_name(c)) + " (1)"; }

std::string joined_names(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

void add_option(std::string& out, const OptionRow& o) {
  out += ".TP\n";
  std::string names;
  for (const std::string& name : o.names) {
    names += (names.empty() ? "" : ", ") + ("\\fB" + plain(name) + "\\fP");
  }
  out += names + (o.value.empty() || o.positional ? "" : " \\fI" + plain(o.value) + "\\fP") +
         (o.positional && o.repeated ? " ..." : "") + "\n";
  out += o.help.empty() ? "\\&" : plain(o.help);
  if (!o.default_value.empty()) out += "\n(default: " + plain(o.default_value) + ")";
  if (o.required) out += "\n(required)";
  if (!o.aliases.empty()) out += "\nAlso " + plain(joined_names(o.aliases)) + ".";
  out += "\n";
}

}  // namespace

std::string man_file_name(const CommandRow& command) { return page_name(command) + ".1"; }

std::string man_page(const CommandRow& c, const CommandRow& top) {
  const bool is_top = c.words.size() == 1;
  std::string out = ".TH \"" + plain(upper(page_name(c))) + "\" 1 \"\" \"onepass " + version() +
                    "\" \"onepass manual\"\n";
  // Sentences are short: no hyphens, no stretched lines.
  out += ".nh\n.ad l\n";
  std::string summary = c.help;
  if (is_top && summary.starts_with("onepass: ")) summary = summary.substr(9);
  out += ".SH NAME\n" + plain(page_name(c)) + " \\- " + plain(summary) + "\n";
  out += ".SH SYNOPSIS\n\\fB" + plain(c.path()) + "\\fP" +
         plain(c.usage().substr(c.path().size())) + "\n";
  if (!c.notes.empty()) {
    out += ".SH DESCRIPTION\n";
    for (std::size_t i = 0; i < c.notes.size(); ++i) {
      out += (i == 0 ? "" : ".PP\n") + plain(c.notes[i]) + "\n";
    }
  }
  std::string group;
  for (const OptionRow& o : c.options) {
    const std::string title = o.positional ? "Arguments" : o.group;
    if (title != group) out += ".SH " + plain(upper(title)) + "\n";
    group = title;
    add_option(out, o);
  }
  group.clear();
  if (!c.commands.empty()) out += ".SH COMMANDS\n";
  for (const CommandRow& sub : c.commands) {
    if (is_top && sub.group != group) out += ".SS " + plain(sub.group) + "\n";
    group = sub.group;
    out += ".TP\n" + reference(sub) + "\n" + plain(sub.help) + "\n";
  }
  if (!c.examples.empty()) {
    out += ".SH EXAMPLES\n";
    for (std::size_t i = 0; i < c.examples.size(); ++i) {
      out += (i == 0 ? "" : ".PP\n") + std::string(".EX\n") + plain(c.examples[i]) + "\n.EE\n";
    }
  }
  out += ".SH ENVIRONMENT\n";
  if (is_top) {
    out +=
        "Options have an environment variable each, named after them;\n.BR onepass\\-env (1)\n"
        "tells how and lists them.\n";
  } else {
    std::string names;
    for (const OptionRow& o : c.options) {
      if (!o.variable.empty()) names += (names.empty() ? "" : ", ") + o.variable;
    }
    out += (names.empty() ? "None of its own." : plain(names) + ".") +
           "\nSee\n.BR onepass\\-env (1).\n";
  }
  out +=
      ".SH EXIT STATUS\n0; 1 after an error; 2 when it was called in a wrong way; 130 after "
      "Ctrl\\-C.\n.SH SEE ALSO\n";
  if (is_top) {
    out += "onepass help \\-\\-search \\fIWORD\\fP\n";
  } else {
    out += reference(top) + "\n";
  }
  return out;
}

}  // namespace onepass::tool
