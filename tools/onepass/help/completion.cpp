#include "completion.h"

#include <algorithm>

#include "model/synthetic.h"
#include "onepass/dtype.h"

namespace onepass::tool {
namespace {

std::string in_quotes(std::string_view text) {
  std::string out = "'";
  for (const char c : text) out += c == '\'' ? "'\\''" : std::string(1, c);
  return out + "'";
}

std::string joined(const std::vector<std::string>& words, const std::string& gap) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : gap) + word;
  return text;
}

// "plan show" of onepass plan show; of the top nothing.
std::string below(const CommandRow& c) { return joined({c.words.begin() + 1, c.words.end()}, " "); }

std::vector<std::string> names_of(const std::vector<CommandRow>& commands) {
  std::vector<std::string> names;
  for (const CommandRow& c : commands) names.push_back(c.name());
  return names;
}

std::vector<std::string> option_names(const CommandRow& c) {
  std::vector<std::string> names;
  for (const OptionRow& o : c.options) {
    if (!o.positional) names.insert(names.end(), o.names.begin(), o.names.end());
  }
  return names;
}

const OptionRow* first_positional(const CommandRow& c) {
  const auto found = std::find_if(c.options.begin(), c.options.end(),
                                  [](const OptionRow& o) { return o.positional; });
  return found == c.options.end() ? nullptr : &*found;
}

// The bash statement that says what to complete.
std::string bash_values(const OptionRow& o, const CommandRow& all) {
  switch (o.kind) {
    case ValueKind::choice:
      return "values=" + in_quotes(joined(o.choices, " "));
    case ValueKind::device:
      return "values=\"auto $(\"${COMP_WORDS[0]}\" devices --names 2>/dev/null)\"";
    case ValueKind::model:
      return "kind=model";
    case ValueKind::number:
      return "kind=none";
    case ValueKind::command:
      return "values=" + in_quotes(joined(names_of(all.commands), " "));
    case ValueKind::none:
    case ValueKind::text:
    case ValueKind::file:
      break;
  }
  return "kind=file";
}

constexpr const char* bash_head =
    R"(# Completion of onepass for bash; made by: onepass completion bash
_onepass() {
  local line=${COMP_LINE:0:COMP_POINT} cur= prev command= word values= options= kind=file i prefix
  local -a words
  read -ra words <<< "$line"
  if [[ $line != *[[:space:]] && ${#words[@]} -gt 1 ]]; then
    cur=${words[${#words[@]}-1]}
    words=("${words[@]:0:${#words[@]}-1}")
  fi
  prev=${words[${#words[@]}-1]}
  COMPREPLY=()
)";
constexpr const char* bash_tail = R"(  if [[ $cur == -* ]]; then
    COMPREPLY=($(compgen -W "$options" -- "$cur"))
  elif [[ $kind == model && ( $cur == synthetic:* || ( -n $cur && synthetic: == "$cur"* ) ) ]]; then
    COMPREPLY=($(compgen -W "$_onepass_synthetic" -- "$cur"))
  elif [[ $kind == none ]]; then
    compopt +o default 2>/dev/null
  elif [[ -n $values ]]; then
    COMPREPLY=($(compgen -W "$values" -- "$cur"))
  fi
  # The line was split at colons, what stands before the last one is there already.
  if [[ $cur == *:* && $COMP_WORDBREAKS == *:* ]]; then
    prefix=${cur%"${cur##*:}"}
    for ((i = 0; i < ${#COMPREPLY[@]}; ++i)); do
      COMPREPLY[i]=${COMPREPLY[i]#"$prefix"}
    done
  fi
  return 0
}
complete -o default -F _onepass onepass
)";

// [ ] and : have a meaning in what _arguments takes.
std::string zsh_text(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '[' || c == ']' || c == ':' || c == '\\') out += '\\';
    out += c;
  }
  return out;
}

std::string zsh_action(const OptionRow& o, const CommandRow& all) {
  switch (o.kind) {
    case ValueKind::choice:
      return "(" + joined(o.choices, " ") + ")";
    case ValueKind::device:
      return "_onepass_devices";
    case ValueKind::model:
      return "_onepass_models";
    case ValueKind::number:
      return " ";
    case ValueKind::command:
      return "(" + joined(names_of(all.commands), " ") + ")";
    case ValueKind::none:
    case ValueKind::text:
    case ValueKind::file:
      break;
  }
  return "_files";
}

std::string zsh_function(const CommandRow& c) {
  std::string name = joined(c.words, "_");
  std::replace(name.begin(), name.end(), '-', '_');
  return "_" + name;
}

void add_zsh(std::string& out, const CommandRow& c, const CommandRow& all) {
  out += zsh_function(c) + "() {\n  local context state state_descr line\n" +
         "  typeset -A opt_args\n  _arguments -C";
  for (const OptionRow& o : c.options) {
    const std::string text = zsh_text(o.help);
    const std::string message = zsh_text(o.value.empty() ? "value" : o.value);
    if (o.positional) {
      out += " \\\n    " + in_quotes((o.repeated   ? "*:"
                                      : o.required ? ":"
                                                   : "::") +
                                     zsh_text(o.names[0]) + ":" + zsh_action(o, all));
      continue;
    }
    const std::string rest =
        "[" + text + "]" +
        (o.kind == ValueKind::none ? "" : ":" + message + ":" + zsh_action(o, all));
    for (const std::string& option : o.names) {
      out += " \\\n    " + in_quotes("(" + joined(o.names, " ") + ")" + option + rest);
    }
  }
  if (c.commands.empty()) {
    out += "\n}\n";
  } else {
    out +=
        " \\\n    '1:command:->command' '*::argument:->argument'\n  case $state in\n"
        "    command)\n      local -a commands=(\n";
    for (const CommandRow& sub : c.commands) {
      out += "        " + in_quotes(sub.name() + ":" + zsh_text(sub.help)) + "\n";
    }
    out +=
        "      )\n      _describe -t commands command commands\n      ;;\n"
        "    argument)\n      case $words[1] in\n";
    for (const CommandRow& sub : c.commands) {
      out += "        " + sub.name() + ") " + zsh_function(sub) + " ;;\n";
    }
    out += "      esac\n      ;;\n  esac\n}\n";
  }
  for (const CommandRow& sub : c.commands) add_zsh(out, sub, all);
}

void add_fish(std::string& out, const CommandRow& c, const CommandRow& all) {
  const bool top = c.words.size() == 1;
  std::string condition = top ? "__fish_use_subcommand" : "";
  for (std::size_t i = 1; i < c.words.size(); ++i) {
    condition += (i == 1 ? "" : "; and ") + ("__fish_seen_subcommand_from " + c.words[i]);
  }
  std::string alone = condition;
  if (!top && !c.commands.empty()) {
    alone += "; and not __fish_seen_subcommand_from " + joined(names_of(c.commands), " ");
  }
  for (const CommandRow& sub : c.commands) {
    out += "complete -c onepass -n " + in_quotes(alone) + " -a " + sub.name() + " -d " +
           in_quotes(sub.help) + "\n";
  }
  for (const OptionRow& o : c.options) {
    out += "complete -c onepass -n " + in_quotes(condition);
    for (const std::string& name : o.positional ? std::vector<std::string>{} : o.names) {
      out += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
    }
    const bool values = !o.positional;
    switch (o.kind) {
      case ValueKind::none:
        break;
      case ValueKind::number:
        out += values ? " -x" : "";
        break;
      case ValueKind::choice:
        out += std::string(values ? " -x" : "") + " -a " + in_quotes(joined(o.choices, " "));
        break;
      case ValueKind::device:
        out += std::string(values ? " -x" : "") +
               " -a '(echo auto; onepass devices --names 2>/dev/null)'";
        break;
      case ValueKind::model:
        out += std::string(values ? " -r" : "") + " -F -a " +
               in_quotes(joined(synthetic_names(), " "));
        break;
      case ValueKind::command:
        out += " -a " + in_quotes(joined(names_of(all.commands), " "));
        break;
      case ValueKind::text:
      case ValueKind::file:
        out += std::string(values ? " -r" : "") + " -F";
        break;
    }
    out += " -d " + in_quotes(o.help) + "\n";
  }
  for (const CommandRow& sub : c.commands) add_fish(out, sub, all);
}

}  // namespace

std::vector<std::string> synthetic_names() {
  const auto spec = [](std::string_view preset, const char* format) {
    return std::string(llm::synthetic_prefix) + std::string(preset) + ":" + format;
  };
  std::vector<const char*> formats;
  const std::string_view any = llm::synthetic_presets().front().name;
  for (int i = 0; i < static_cast<int>(DType::count_); ++i) {
    const char* format = name(static_cast<DType>(i));
    if (llm::SyntheticSource::create(spec(any, format))) formats.push_back(format);
  }
  std::vector<std::string> names;
  for (const llm::SyntheticPreset& preset : llm::synthetic_presets()) {
    for (const char* format : formats) names.push_back(spec(preset.name, format));
  }
  return names;
}

std::string bash_completion(const CommandRow& all) {
  std::string out = bash_head;
  out += "  for word in \"${words[@]:1}\"; do\n    case \"$command:$word\" in\n";
  for_each_command(all, [&](const CommandRow& c) {
    if (c.words.size() == 1) return;
    const std::string parent = joined({c.words.begin() + 1, c.words.end() - 1}, " ");
    out += "      " + in_quotes(parent + ":" + c.name()) + ") command=" + in_quotes(below(c)) +
           " ;;\n";
  });
  out += "    esac\n  done\n  case $command in\n";
  for_each_command(all, [&](const CommandRow& c) {
    out += "    " + in_quotes(below(c)) +
           ")\n      options=" + in_quotes(joined(option_names(c), " "));
    if (!c.commands.empty()) {
      out += "\n      values=" + in_quotes(joined(names_of(c.commands), " "));
    } else if (const OptionRow* o = first_positional(c)) {
      out += "\n      " + bash_values(*o, all);
    }
    out += "\n      ;;\n";
  });
  out += "  esac\n  case \"$command:$prev\" in\n";
  for_each_command(all, [&](const CommandRow& c) {
    for (const OptionRow& o : c.options) {
      if (o.positional || o.kind == ValueKind::none) continue;
      std::string patterns;
      std::vector<std::string> names = o.names;
      names.insert(names.end(), o.aliases.begin(), o.aliases.end());
      for (const std::string& name : names) {
        patterns += (patterns.empty() ? "" : "|") + in_quotes(below(c) + ":" + name);
      }
      out += "    " + patterns + ") values= kind=file; " + bash_values(o, all) + " ;;\n";
    }
  });
  out += "  esac\n";
  return "_onepass_synthetic=" + in_quotes(joined(synthetic_names(), " ")) + "\n" + out + bash_tail;
}

std::string zsh_completion(const CommandRow& all) {
  std::string out =
      "#compdef onepass\n# Completion of onepass for zsh; made by: onepass completion zsh\n";
  add_zsh(out, all, all);
  out +=
      "_onepass_devices() {\n  local -a devices=(auto ${(f)\"$(_call_program devices onepass "
      "devices --names "
      "2>/dev/null)\"})\n  compadd -a devices\n}\n"
      "_onepass_models() {\n  local -a models=(" +
      joined(synthetic_names(), " ") +
      ")\n  _alternative 'files:model:_files' 'models:synthetic model:compadd -a models'\n}\n"
      "# Sourced, it tells zsh; found by zsh as _onepass, it runs.\n"
      "if [[ $funcstack[1] == _onepass ]]; then\n  _onepass \"$@\"\nelif (( $+functions[compdef] "
      ")); "
      "then\n  compdef _onepass onepass\nfi\n";
  return out;
}

std::string fish_completion(const CommandRow& all) {
  std::string out =
      "# Completion of onepass for fish; made by: onepass completion fish\n"
      "complete -c onepass -f\n";
  add_fish(out, all, all);
  return out;
}

}  // namespace onepass::tool
