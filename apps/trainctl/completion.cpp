#include "cli/verb.hpp"
#include "config/schema/explain.hpp"
#include "study/init/starter.hpp"

namespace trainctl::app {
namespace {

struct VerbWords {
  std::string name;  // "run", "data hash"
  std::vector<std::string> aliases;
  std::string summary;
  std::vector<std::string> flags;     // e.g. "--out"
  std::vector<std::string> switches;  // flags without a value
  std::vector<std::string> values;    // possible arguments in addition to files
  bool takes_files = false;
  bool takes_experiments = false;  // only YAML files
};

std::vector<config::KnownKey> keys() {
  return config::known_keys(spec::experiment_schema(), spec::builtin_vocabulary());
}

// Returns "optimizer.lr=" and "trainer.accelerator=cpu".
std::vector<std::string> override_words() {
  std::vector<std::string> words;
  for (const config::KnownKey& key : keys()) {
    words.push_back(key.key + "=");
    for (const std::string& value : key.values) words.push_back(key.key + "=" + value);
  }
  return words;
}

// Returns the arguments of `explain`: keys, and "optimizer.adam.lr" for every type.
std::vector<std::string> key_words() {
  std::vector<std::string> words{"extends"};
  for (const config::KnownKey& key : keys()) words.push_back(key.key);
  const config::Vocabulary& vocabulary = spec::builtin_vocabulary();
  for (const std::string& kind : vocabulary.kinds()) {
    for (const std::string& name : vocabulary.names(kind)) {
      words.push_back(kind + "." + name);
      for (const std::string& key : vocabulary.find(kind, name)->schema.keys()) {
        words.push_back(kind + "." + name + "." + key);
      }
    }
  }
  return words;
}

// Returns "optimizer" and "optimizer/adam".
std::vector<std::string> schema_words() {
  const config::Vocabulary& vocabulary = spec::builtin_vocabulary();
  std::vector<std::string> words = vocabulary.kinds();
  for (const std::string& kind : vocabulary.kinds()) {
    for (const std::string& name : vocabulary.names(kind)) words.push_back(kind + "/" + name);
  }
  return words;
}

bool names_experiments(const std::string& argument) {
  return argument.find("CONFIG") != std::string::npos;
}

std::vector<std::string> argument_words(const std::string& argument) {
  if (names_experiments(argument)) return override_words();
  if (argument.starts_with("NAME")) return key_words();
  if (argument.starts_with("[KIND[/")) return schema_words();
  if (argument == "KIND") return {study::kStarterKinds.begin(), study::kStarterKinds.end()};
  if (argument.starts_with("[KIND")) return spec::builtin_vocabulary().kinds();
  if (argument.starts_with("SHELL")) return {"bash", "zsh", "fish"};
  return {};
}

std::vector<const CLI::App*> verbs_below(const CLI::App& app) {
  std::vector<const CLI::App*> verbs = app.get_subcommands([](const CLI::App*) { return true; });
  std::erase_if(verbs, [](const CLI::App* verb) { return verb->get_group().empty(); });
  return verbs;
}

VerbWords words_of(const CLI::App& verb, const std::string& name) {
  VerbWords words{.name = name, .aliases = verb.get_aliases(), .summary = verb.get_description()};
  for (const CLI::App* inner : verbs_below(verb)) words.values.push_back(inner->get_name());
  for (const CLI::Option* option : verb.get_options()) {
    if (!option->get_positional()) {
      for (const std::string& flag : option->get_lnames()) {
        const bool is_spelling = flag.find('_') != std::string::npos;  // of a flag with dashes
        if (is_spelling) continue;
        words.flags.push_back("--" + flag);
        if (option->get_items_expected_max() == 0) words.switches.push_back("--" + flag);
      }
      continue;
    }
    const std::string& type = option->get_type_name();
    words.takes_experiments = words.takes_experiments || names_experiments(type);
    words.takes_files = words.takes_files || words.takes_experiments || type.starts_with("PATH") ||
                        type.starts_with("FILE") || type == "[DATA]";
    for (const std::string& word : argument_words(option->get_type_name()))
      words.values.push_back(word);
  }
  return words;
}

// Returns each command, followed by the commands below it.
std::vector<VerbWords> verb_words(const CLI::App& program) {
  std::vector<VerbWords> verbs;
  for (const CLI::App* verb : verbs_below(program)) {
    verbs.push_back(words_of(*verb, verb->get_name()));
    for (const CLI::App* inner : verbs_below(*verb))
      verbs.push_back(words_of(*inner, verb->get_name() + " " + inner->get_name()));
  }
  return verbs;
}

bool is_inner(const VerbWords& verb) { return verb.name.find(' ') != std::string::npos; }

std::string spaced(const std::vector<std::string>& words) { return join(words, " "); }

std::vector<std::string> with_aliases(const VerbWords& verb) {
  std::vector<std::string> names{verb.name};
  names.insert(names.end(), verb.aliases.begin(), verb.aliases.end());
  return names;
}

std::vector<std::string> names_of(const std::vector<VerbWords>& verbs) {
  std::vector<std::string> names;
  for (const VerbWords& verb : verbs) {
    if (is_inner(verb)) continue;
    for (const std::string& name : with_aliases(verb)) names.push_back(name);
  }
  return names;
}

// Returns 'validate'|'check', a pattern for bash and zsh.
std::string pattern_of(const VerbWords& verb) {
  std::string pattern = "'" + verb.name + "'";
  for (const std::string& alias : verb.aliases) pattern += "|'" + alias + "'";
  return pattern;
}

struct FlagValues {
  std::string flag;
  std::vector<std::string> values;
  bool takes_files = false;  // in addition to the values
};

// Returns the flags whose values are words or paths, and the global flags with a few possible
// words, which are listed in their help.
std::vector<FlagValues> flag_values(const CLI::App& program) {
  std::vector<FlagValues> found{{"--resume", {"auto", "last", "best"}, true},
                                {"--checkpoint", {"best", "last"}, true}};
  for (const char* flag : {"--color", "--progress"}) {
    std::vector<std::string> words = split(program.get_option(flag)->get_description(), ',');
    for (std::string& word : words) std::erase(word, ' ');
    found.push_back({flag, std::move(words), false});
  }
  return found;
}

// Returns "'sweep --resume'": flags that take a value for other commands but not for this one, as a
// pattern for bash and zsh.
std::string switch_patterns(const std::vector<VerbWords>& verbs,
                            const std::vector<FlagValues>& flags) {
  std::vector<std::string> patterns;
  for (const VerbWords& verb : verbs) {
    for (const FlagValues& one : flags) {
      if (std::ranges::find(verb.switches, one.flag) != verb.switches.end())
        patterns.push_back(fmt::format("'{} {}'", verb.name, one.flag));
    }
  }
  return patterns.empty() ? "''" : join(patterns, "|");
}

// bash breaks words at '=' and keeps the part before it, so that part is removed from the replies.
std::string bash_script(const std::vector<VerbWords>& verbs, const std::vector<FlagValues>& flags) {
  std::string text =
      R"(# bash completion of trainctl. Load it with: source <(trainctl completion bash)
_trainctl_words() {
  case "$1" in
)";
  text += fmt::format("    '') words='{} --help' ;;\n", spaced(names_of(verbs)));
  for (const VerbWords& verb : verbs) {
    text += fmt::format("    {}) words='{} {}'{} ;;\n", pattern_of(verb), spaced(verb.flags),
                        spaced(verb.values), verb.takes_files ? "; files=1" : "");
  }
  text += R"(    *) return 1 ;;
  esac
}
_trainctl() {
  local line="${COMP_LINE:0:COMP_POINT}" words="" files="" w
  local word="${line##*[[:space:]]}" verbs=()
  for w in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
    if [[ $w != -* ]]; then verbs+=("$w"); fi
  done
  _trainctl_words "${verbs[*]:0:2}" || _trainctl_words "${verbs[*]:0:1}"
  local before="${COMP_WORDS[COMP_CWORD-1]}"
)";
  text += fmt::format("  case \"${{verbs[0]}} $before\" in {}) before='' ;; esac\n",
                      switch_patterns(verbs, flags));
  text += "  case \"$before\" in\n";
  for (const FlagValues& one : flags) {
    text += fmt::format("    {}) words='{}' files='{}' ;;\n", one.flag, spaced(one.values),
                        one.takes_files ? "1" : "");
  }
  return text + R"(  esac
  local sign="${word%%[!+~]*}" IFS=$' \t\n'
  if [[ $sign == '~' ]]; then words=$(for w in $words; do echo "${w%%=*}"; done | sort -u); fi
  COMPREPLY=( $(compgen -P "$sign" -W "$words" -- "${word#"$sign"}") )
  local IFS=$'\n'
  if [[ -n $files && $word != *=* ]]; then COMPREPLY+=( $(compgen -f -- "$word") ); fi
  if [[ $word == *=* && $COMP_WORDBREAKS == *=* ]]; then COMPREPLY=( "${COMPREPLY[@]#"${word%"${word##*=}"}"}" ); fi
  if [[ ${#COMPREPLY[@]} == 1 && ${COMPREPLY[0]} == *= ]]; then compopt -o nospace 2>/dev/null; fi
}
complete -o filenames -F _trainctl trainctl
)";
}

std::string escaped(const std::string& text) {
  std::string safe;
  for (const char c : text) safe += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return safe;
}

std::string zsh_case(const VerbWords& verb) {
  std::string text =
      fmt::format("    {})\n      compadd -- {}\n", pattern_of(verb), spaced(verb.flags));
  if (!verb.values.empty())
    text += fmt::format("      compadd {}-- {}\n", verb.takes_files ? "-S '' " : "",
                        spaced(verb.values));
  if (verb.takes_files)
    text += verb.takes_experiments ? "      _files -g '*.y(a|)ml'\n" : "      _files\n";
  return text + "      ;;\n";
}

std::string zsh_script(const std::vector<VerbWords>& verbs, const std::vector<FlagValues>& flags) {
  std::string text = R"(#compdef trainctl
# zsh completion of trainctl. Load it with: source <(trainctl completion zsh)
_trainctl_words() {
  case $1 in
)";
  for (const VerbWords& verb : verbs) text += zsh_case(verb);
  text += R"(    *) return 1 ;;
  esac
}
_trainctl() {
  if (( CURRENT == 2 )); then
    local -a verbs=(
)";
  for (const VerbWords& verb : verbs) {
    if (is_inner(verb)) continue;
    for (const std::string& name : with_aliases(verb))
      text += fmt::format("      '{}:{}'\n", name, escaped(verb.summary));
  }
  text += R"(    )
    _describe command verbs
    return
  fi
  local before=${words[CURRENT-1]}
)";
  text += fmt::format("  case \"${{words[2]}} $before\" in {}) before='' ;; esac\n",
                      switch_patterns(verbs, flags));
  text += "  case $before in\n";
  for (const FlagValues& one : flags) {
    text += fmt::format("    {}) compadd -- {}; {}return ;;\n", one.flag, spaced(one.values),
                        one.takes_files ? "_files; " : "");
  }
  return text + R"(  esac
  _trainctl_words "${words[2]} ${words[3]}" || _trainctl_words ${words[2]}
}
compdef _trainctl trainctl
)";
}

std::string fish_condition(const VerbWords& verb) {
  std::string condition;
  for (const std::string& word : split(verb.name, ' ')) {
    condition += (condition.empty() ? "" : "; and ") + ("__fish_seen_subcommand_from " + word);
  }
  for (const std::string& alias : verb.aliases) condition += " " + alias;
  return condition;
}

std::string fish_script(const std::vector<VerbWords>& verbs, const std::vector<FlagValues>& flags) {
  std::string text =
      "# fish completion of trainctl. Load it with: trainctl completion fish | source\n";
  for (const VerbWords& verb : verbs) {
    if (is_inner(verb)) continue;
    text += fmt::format("complete -c trainctl -f -n __fish_use_subcommand -a '{}' -d '{}'\n",
                        spaced(with_aliases(verb)), escaped(verb.summary));
  }
  for (const VerbWords& verb : verbs) {
    const std::string start = fmt::format("complete -c trainctl -n '{}'", fish_condition(verb));
    for (const std::string& flag : verb.flags) {
      const auto choice = std::ranges::find(flags, flag, &FlagValues::flag);
      const bool is_switch = std::ranges::find(verb.switches, flag) != verb.switches.end();
      const bool is_choice = choice != flags.end() && !is_switch;
      const char* form = is_choice && choice->takes_files ? "-r" : "-x";
      const std::string values =
          is_choice ? fmt::format(" {} -a '{}'", form, spaced(choice->values)) : "";
      text += fmt::format("{} -l {}{}\n", start, flag.substr(2), values);
    }
    if (!verb.values.empty())
      text +=
          fmt::format("{}{} -a '{}'\n", start, verb.takes_files ? "" : " -f", spaced(verb.values));
  }
  return text;
}

int complete(const std::string& shell, const Context& context) {
  const CLI::App& program = *context.program;
  const std::vector<VerbWords> verbs = verb_words(program);
  std::string script;
  const std::vector<FlagValues> flags = flag_values(program);
  if (shell == "bash") script = bash_script(verbs, flags);
  if (shell == "zsh") script = zsh_script(verbs, flags);
  if (shell == "fish") script = fish_script(verbs, flags);
  ENSURE(config, !script.empty(), "SHELL must be bash, zsh or fish, got '{}'", printable(shell));
  if (context.json)
    return print_json({{"schema", "trainctl.completion/2"}, {"shell", shell}, {"script", script}});
  put(stdout, script);
  return 0;
}

}  // namespace

void add_completion(CLI::App& program, Context& context) {
  const auto [verb, shell] =
      add_verb(program, context,
               {"completion", "print a completion script for your shell", kMachineGroup}, complete);
  add_options(verb, {{"shell", shell, "SHELL", "bash, zsh or fish"}});
  verb.footer(
      "bash:  source <(trainctl completion bash)\n"
      "zsh:   source <(trainctl completion zsh)\n"
      "fish:  trainctl completion fish | source");
}

}  // namespace trainctl::app
