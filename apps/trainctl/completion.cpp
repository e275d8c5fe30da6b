#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "base/strings.hpp"
#include "config/explain.hpp"
#include "context.hpp"
#include "spec/load.hpp"
#include "verbs.hpp"

namespace trainctl::app {
namespace {

struct VerbWords {
  std::string name;
  std::string summary;
  std::vector<std::string> flags;   // "--out"
  std::vector<std::string> values;  // what may stand as an argument, beside files
  bool takes_files = false;
};

std::vector<config::KnownKey> keys() { return config::known_keys(spec::experiment_schema(), spec::builtin_vocabulary()); }

// "optimizer.lr=" and "trainer.accelerator=cpu".
std::vector<std::string> override_words() {
  std::vector<std::string> words;
  for (const config::KnownKey& key : keys()) {
    words.push_back(key.key + "=");
    for (const std::string& value : key.values) words.push_back(key.key + "=" + value);
  }
  return words;
}

std::vector<std::string> key_words() {
  std::vector<std::string> words;
  for (const config::KnownKey& key : keys()) words.push_back(key.key);
  return words;
}

std::vector<std::string> argument_words(const std::string& argument) {
  if (argument.starts_with("CONFIG")) return override_words();
  if (argument.starts_with("KEY")) return key_words();
  if (argument.starts_with("[KIND")) return spec::builtin_vocabulary().kinds();
  if (argument.starts_with("SHELL")) return {"bash", "zsh", "fish"};
  return {};
}

std::vector<VerbWords> verb_words(const CLI::App& program) {
  std::vector<VerbWords> verbs;
  for (const CLI::App* verb : program.get_subcommands([](const CLI::App*) { return true; })) {
    if (verb->get_group().empty()) continue;
    VerbWords& words = verbs.emplace_back(VerbWords{.name = verb->get_name(), .summary = verb->get_description()});
    for (const CLI::App* inner : verb->get_subcommands([](const CLI::App*) { return true; })) words.values.push_back(inner->get_name());
    for (const CLI::Option* option : verb->get_options()) {
      for (const std::string& name : option->get_lnames()) {
        if (!option->get_positional()) words.flags.push_back("--" + name);
      }
      if (!option->get_positional()) continue;
      words.takes_files = words.takes_files || option->get_type_name().starts_with("CONFIG");
      for (const std::string& word : argument_words(option->get_type_name())) words.values.push_back(word);
    }
  }
  return verbs;
}

std::string spaced(const std::vector<std::string>& words) { return join(words, " "); }

std::vector<std::string> names_of(const std::vector<VerbWords>& verbs) {
  std::vector<std::string> names;
  for (const VerbWords& verb : verbs) names.push_back(verb.name);
  return names;
}

// '=' breaks words in bash: the part up to it is not replaced, so it is cut from the replies.
std::string bash_script(const std::vector<VerbWords>& verbs) {
  std::string text = R"(# bash completion of trainctl. Load it with: source <(trainctl completion bash)
_trainctl() {
  local line="${COMP_LINE:0:COMP_POINT}" verb="" words="" files="" w
  local word="${line##*[[:space:]]}"
  for w in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
    if [[ $w != -* ]]; then verb="$w"; break; fi
  done
  case "$verb" in
)";
  text += fmt::format("    '') words='{} --help' ;;\n", spaced(names_of(verbs)));
  for (const VerbWords& verb : verbs) {
    text += fmt::format("    {}) words='{} {}'{} ;;\n", verb.name, spaced(verb.flags), spaced(verb.values), verb.takes_files ? "; files=1" : "");
  }
  text += R"(  esac
  local sign="${word%%[!+~]*}" IFS=$' \t\n'
  COMPREPLY=( $(compgen -P "$sign" -W "$words" -- "${word#"$sign"}") )
  local IFS=$'\n'
  if [[ -n $files && $word != *=* ]]; then COMPREPLY+=( $(compgen -f -- "$word") ); fi
  if [[ $word == *=* && $COMP_WORDBREAKS == *=* ]]; then COMPREPLY=( "${COMPREPLY[@]#"${word%"${word##*=}"}"}" ); fi
  if [[ ${#COMPREPLY[@]} == 1 && ${COMPREPLY[0]} == *= ]]; then compopt -o nospace 2>/dev/null; fi
}
complete -o filenames -F _trainctl trainctl
)";
  return text;
}

std::string escaped(const std::string& text) {
  std::string safe;
  for (const char c : text) safe += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return safe;
}

std::string zsh_script(const std::vector<VerbWords>& verbs) {
  std::string text = "#compdef trainctl\n# zsh completion of trainctl. Load it with: source <(trainctl completion zsh)\n_trainctl() {\n";
  text += "  if (( CURRENT == 2 )); then\n    local -a verbs=(\n";
  for (const VerbWords& verb : verbs) text += fmt::format("      '{}:{}'\n", verb.name, escaped(verb.summary));
  text += "    )\n    _describe verb verbs\n    return\n  fi\n  case ${words[2]} in\n";
  for (const VerbWords& verb : verbs) {
    text += fmt::format("    {})\n      compadd -- {}\n", verb.name, spaced(verb.flags));
    if (!verb.values.empty()) text += fmt::format("      compadd {}-- {}\n", verb.takes_files ? "-S '' " : "", spaced(verb.values));
    text += verb.takes_files ? "      _files -g '*.y(a|)ml'\n      ;;\n" : "      ;;\n";
  }
  return text + "  esac\n}\ncompdef _trainctl trainctl\n";
}

std::string fish_script(const std::vector<VerbWords>& verbs) {
  std::string text = "# fish completion of trainctl. Load it with: trainctl completion fish | source\n";
  for (const VerbWords& verb : verbs) {
    text += fmt::format("complete -c trainctl -f -n __fish_use_subcommand -a {} -d '{}'\n", verb.name, escaped(verb.summary));
  }
  for (const VerbWords& verb : verbs) {
    const std::string condition = fmt::format("complete -c trainctl -n '__fish_seen_subcommand_from {}'", verb.name);
    for (const std::string& flag : verb.flags) text += fmt::format("{} -l {}\n", condition, flag.substr(2));
    if (!verb.values.empty()) text += fmt::format("{}{} -a '{}'\n", condition, verb.takes_files ? "" : " -f", spaced(verb.values));
  }
  return text;
}

int complete(const CLI::App& program, const std::string& shell, const Context& context) {
  const std::vector<VerbWords> verbs = verb_words(program);
  std::string script;
  if (shell == "bash") script = bash_script(verbs);
  if (shell == "zsh") script = zsh_script(verbs);
  if (shell == "fish") script = fish_script(verbs);
  ENSURE(config, !script.empty(), "unknown shell '{}'; there are bash, zsh and fish", printable(shell));
  if (context.json) {
    print_json({{"schema", "trainctl.completion/1"}, {"shell", shell}, {"script", script}});
  } else {
    fmt::print("{}", script);
  }
  return 0;
}

}  // namespace

void add_completion(CLI::App& program, Context& context) {
  const auto shell = std::make_shared<std::string>();
  CLI::App& verb = add_verb(program, context, {"completion", "completion of verbs, flags, keys and values for your shell", kMachineGroup},
                            [&program, shell, &context] { return complete(program, *shell, context); });
  verb.add_option("shell", *shell, "bash, zsh or fish")->required()->type_name("SHELL");
  verb.footer("bash:  source <(trainctl completion bash)\n"
              "zsh:   source <(trainctl completion zsh)\n"
              "fish:  trainctl completion fish | source");
}

}  // namespace trainctl::app
