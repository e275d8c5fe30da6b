#include "cli/help.hpp"

#include "base/files.hpp"
#include "base/strings.hpp"
#include "config/schema/explain.hpp"
#include "config/wording.hpp"
#include "spec/load.hpp"
#include "spec/plugins.hpp"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

namespace trainctl::app {
namespace {

constexpr std::size_t kLeftWidth = 26;

std::string row(const std::string& left, const std::string& right) {
  if (left.size() + 2 > kLeftWidth)
    return fmt::format("  {}\n{:{}}{}\n", left, "", kLeftWidth + 2, right);
  return fmt::format("  {:<{}}{}\n", left, kLeftWidth, right);
}

// Returns "-c, --config FILE"; flags without a short form are aligned with the long names.
std::string left_of(const CLI::Option& option) {
  const std::string short_name =
      option.get_snames().empty() ? "    " : "-" + option.get_snames()[0] + ", ";
  const std::string long_name = option.get_lnames().empty() ? "" : "--" + option.get_lnames()[0];
  const bool takes_value = option.get_items_expected_max() > 0;
  return short_name + long_name + (takes_value ? " " + option.get_type_name() : "");
}

// An argument such as "[CONFIG] [key=value ...]" has one row for each bracket and one line of
// description for each row.
std::vector<std::string> rows_of_argument(const CLI::Option& argument) {
  std::vector<std::string> rows;
  std::string left = argument.get_type_name();
  for (const std::string& line : split(argument.get_description(), '\n')) {
    const std::size_t space = left.find("] [");
    const std::size_t length = space == std::string::npos ? left.size() : space + 1;
    rows.push_back(row(left.substr(0, length), line));
    left.erase(0, length + 1);
  }
  return rows;
}

using Section = std::pair<std::string, std::vector<std::string>>;

void add_row(std::vector<Section>& sections, const std::string& title, std::string text) {
  auto found = std::ranges::find(sections, title, &Section::first);
  if (found == sections.end()) found = sections.insert(sections.end(), {title, {}});
  found->second.push_back(std::move(text));
}

std::vector<Section> sections_of(const CLI::App& app) {
  std::vector<Section> sections;
  for (const CLI::App* verb : app.get_subcommands([](const CLI::App*) { return true; })) {
    const std::string title = app.get_parent() == nullptr ? verb->get_group() : "Commands";
    if (!verb->get_group().empty())
      add_row(sections, title, row(verb->get_name(), verb->get_description()));
  }
  for (const CLI::Option* option : app.get_options()) {
    if (!option->get_positional()) continue;
    for (const std::string& one : rows_of_argument(*option)) add_row(sections, "Arguments", one);
  }
  for (const bool global : {false, true}) {
    for (const CLI::Option* option : app.get_options()) {
      const bool is_global = option->get_group() == "Global options";
      if (option->get_positional() || option->get_group().empty() || is_global != global) continue;
      add_row(sections, option->get_group(), row(left_of(*option), option->get_description()));
    }
  }
  return sections;
}

std::string sentence(std::string text) {
  if (!text.empty() && text[0] >= 'a' && text[0] <= 'z') text[0] = static_cast<char>(text[0] - 32);
  return text.ends_with('.') ? text : text + ".";
}

const CLI::App& chosen(const CLI::App& program) {
  const CLI::App* at = &program;
  while (!at->get_subcommands().empty()) at = at->get_subcommands().front();
  return *at;
}

std::string did_you_mean(const std::string& word, const std::vector<std::string>& candidates) {
  const auto found = nearest(word, candidates);
  return found ? fmt::format("; did you mean '{}'?", *found) : "";
}

struct VerbSynonym {
  std::string_view word;
  std::string_view verb;
};

// Names of our commands in other programs.
constexpr std::array kVerbSynonyms{
    VerbSynonym{"train", "run"},
    VerbSynonym{"fit", "run"},
    VerbSynonym{"start", "run"},
    VerbSynonym{"launch", "run"},
    VerbSynonym{"finetune", "run"},
    VerbSynonym{"resume", "run --resume auto"},
    VerbSynonym{"test", "eval --split test"},
    VerbSynonym{"evaluate", "eval"},
    VerbSynonym{"infer", "predict"},
    VerbSynonym{"inference", "predict"},
    VerbSynonym{"benchmark", "bench"},
    VerbSynonym{"profile", "run --profile"},
    VerbSynonym{"search", "sweep"},
    VerbSynonym{"hpo", "sweep"},
    VerbSynonym{"optimize", "tune"},
    VerbSynonym{"lint", "validate"},
    VerbSynonym{"config", "show-config"},
    VerbSynonym{"summary", "plan"},
    VerbSynonym{"diff", "compare"},
    VerbSynonym{"monitor", "top"},
    VerbSynonym{"watch", "top"},
    VerbSynonym{"info", "doctor"},
    VerbSynonym{"export", "checkpoint export"},
    VerbSynonym{"import", "checkpoint import"},
    VerbSynonym{"describe", "explain"},
    VerbSynonym{"help", "--help"},
};

bool looks_like_file(const std::string& word) {
  return word.ends_with(".yaml") || word.ends_with(".yml") ||
         word.starts_with(spec::kBuiltinPrefix) || is_file(word);
}

/// Returns the command that `word` was probably meant for, with arguments; "" if none fits.
std::string meant_verb(const CLI::App& app, const std::string& word) {
  const bool is_program = app.get_parent() == nullptr;
  const bool is_override = word.find('=') != std::string::npos;
  if (is_program && (is_override || looks_like_file(word)))
    return "trainctl run " + printable(word);
  std::vector<std::string> names;
  for (const CLI::App* verb : app.get_subcommands([](const CLI::App*) { return true; })) {
    if (verb->get_group().empty()) continue;
    names.push_back(verb->get_name());
    names.insert(names.end(), verb->get_aliases().begin(), verb->get_aliases().end());
  }
  if (is_program) {
    for (const VerbSynonym& synonym : kVerbSynonyms) names.emplace_back(synonym.word);
  }
  const std::string found = nearest(word, names).value_or("");
  const auto synonym = std::ranges::find(kVerbSynonyms, found, &VerbSynonym::word);
  return is_program && synonym != kVerbSynonyms.end() ? std::string(synonym->verb) : found;
}

std::string unknown_verb(const CLI::App& app, const std::string& word) {
  const std::string meant = meant_verb(app, word);
  return fmt::format("unknown command '{}'{}", printable(word),
                     meant.empty() ? "" : fmt::format("; did you mean '{}'?", meant));
}

/// Returns the value that follows a flag on the command line.
std::string value_after(const std::string& flag, const std::vector<std::string>& argv) {
  if (const std::size_t equals = flag.find('='); equals != std::string::npos)
    return flag.substr(equals + 1);
  const auto at = std::ranges::find(argv, flag);
  const bool has_value = at != argv.end() && at + 1 != argv.end() && !(at + 1)->starts_with("--");
  return has_value ? *(at + 1) : "VALUE";
}

/// Adapts a note about a config key to a flag of that name: it shows overrides instead of YAML.
std::string note_for_flag(std::string note, const std::string& command) {
  if (const std::size_t key = note.find("remove the key"); key != std::string::npos)
    note.replace(key, std::string_view("remove the key").size(), "remove the flag");
  std::vector<std::string> parts = split(note, '\'');  // every second part is quoted
  for (std::size_t i = 1; i < parts.size(); i += 2) {
    const std::size_t colon = parts[i].find(": ");
    const bool has_key =
        colon != std::string::npos && colon > 0 &&
        parts[i].find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_.") == colon;
    if (has_key) parts[i] = command + parts[i].replace(colon, 2, "=");
  }
  return join(parts, "'");
}

/// Returns the override to write instead of a flag that is an experiment key; else "".
std::string override_hint(const CLI::App& verb, const std::string& flag,
                          const std::vector<std::string>& argv) {
  const bool is_program = verb.get_parent() == nullptr;
  const bool takes_overrides = is_program || verb.get_option_no_throw("--config") != nullptr;
  if (!takes_overrides || !flag.starts_with("--")) return "";
  std::string name = flag.substr(2, flag.find('=') - 2);
  std::ranges::replace(name, '-', '_');
  const std::string command = is_program ? "trainctl run " : "";
  std::string key;
  for (const config::KnownKey& known :
       config::known_keys(spec::experiment_schema(), spec::vocabulary_in_use())) {
    const bool is_last = known.key.ends_with("." + name);
    if (known.key == name || (key.empty() && is_last)) key = known.key;
  }
  if (const config::Alias* alias = config::find_alias(name); alias != nullptr && key != name) {
    if (!alias->note.empty()) return note_for_flag(std::string(alias->note), command);
    if (!alias->key.empty()) key = std::string(alias->key);
  }
  if (key.empty()) return "";
  return fmt::format("keys of the experiment are overrides, not flags: write '{}{}={}'", command,
                     key, printable(value_after(flag, argv)));
}

std::string unknown_flag(const CLI::App& app, const std::string& word,
                         const std::vector<std::string>& argv) {
  const std::string name = word.substr(0, word.find('='));
  std::vector<std::string> flags;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& long_name : option->get_lnames()) flags.push_back("--" + long_name);
    for (const std::string& short_name : option->get_snames()) flags.push_back("-" + short_name);
  }
  if (std::ranges::find(flags, name) !=
      flags.end()) {  // it is a flag of this command, and was written before its name
    return fmt::format(
        "the flag '{0}' belongs to '{1}': write it after the command, trainctl {1} {0}", name,
        app.get_name());
  }
  const std::string hint = override_hint(app, word, argv);
  return fmt::format("unknown flag '{}'{}", printable(name),
                     hint.empty() ? did_you_mean(name, flags) : "; " + hint);
}

}  // namespace

std::string usage_line(const CLI::App& app) {
  if (app.get_parent() == nullptr) return "trainctl COMMAND [arguments] [options]";
  std::string path = app.get_name();
  for (const CLI::App* up = app.get_parent(); up != nullptr; up = up->get_parent())
    path = up->get_name() + " " + path;
  if (!app.get_subcommands([](const CLI::App*) { return true; }).empty()) path += " COMMAND";
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_positional()) path += " " + option->get_type_name();
  }
  return path + " [options]";
}

std::string help_text(const CLI::App& app) {
  std::string text = sentence(app.get_description()) + "\n\nUsage: " + usage_line(app) + "\n";
  for (const auto& [title, rows] : sections_of(app)) {
    text += "\n" + title + ":\n";
    for (const std::string& one : rows) text += one;
  }
  if (!app.get_footer().empty()) text += "\n" + app.get_footer() + "\n";
  return text;
}

std::string usage_error(const CLI::App& program, const CLI::ParseError& error,
                        const std::vector<std::string>& argv) {
  const CLI::App& verb = chosen(program);
  const std::vector<std::string> rest = program.remaining(true);
  std::string message = printable(error.what());
  const bool has_verbs = !verb.get_subcommands([](const CLI::App*) { return true; }).empty();
  const auto code = static_cast<CLI::ExitCodes>(error.get_exit_code());
  // A missing command is reported before an unknown word.
  const bool no_verb = has_verbs && code == CLI::ExitCodes::RequiredError;
  const auto flag = std::ranges::find_if(
      rest, [](const std::string& word) { return word.starts_with('-') && word != "--"; });
  if (has_verbs && !rest.empty() && !rest[0].starts_with('-') &&
      (no_verb || code == CLI::ExitCodes::ExtrasError)) {
    message = unknown_verb(verb, rest[0]);
  } else if (flag != rest.end()) {  // its value may have been parsed as an argument
    message = unknown_flag(verb, *flag, argv);
  } else if (!rest.empty() && (no_verb || code == CLI::ExitCodes::ExtrasError)) {
    message = fmt::format("unexpected argument '{}'", printable(rest[0]));
  }
  std::string path;
  for (const CLI::App* at = &verb; at != nullptr; at = at->get_parent())
    path = at->get_name() + " " + path;
  return fmt::format("{} (see: {}--help)", message, path);
}

}  // namespace trainctl::app
