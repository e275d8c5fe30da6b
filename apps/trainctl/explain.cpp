#include "config/schema/explain.hpp"

#include "base/error.hpp"
#include "base/strings.hpp"
#include "cli/context.hpp"
#include "cli/help.hpp"
#include "cli/plugin_option.hpp"
#include "config/wording.hpp"
#include "explain_names.hpp"
#include "report/diagnosis/bottleneck_page.hpp"
#include "spec/load.hpp"
#include "spec/plugins.hpp"
#include "verbs.hpp"

#include <CLI/CLI.hpp>

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace trainctl::app {
namespace {

struct ExplainArguments {
  std::vector<std::string> words;
  std::vector<std::string> plugins;
  bool bottlenecks = false;
};

/// One meaning of a name: a text for people and a document.
struct Meaning {
  std::string text;
  Json json;
};

Meaning meaning_of(const config::Explanation& found) {
  return {config::to_text(found), config::to_json(found)};
}

Meaning meaning_of(const char* what, const NamedFact& fact, const std::string& name) {
  Json json = {
      {"schema", "trainctl.explain/1"}, {"key", name}, {"type", what}, {"help", fact.meaning}};
  return {fmt::format("{}: {}\n  {:<9}{}\n", printable(name), fact.meaning, "type", what),
          std::move(json)};
}

/// Returns the verbs below `app` that the help lists.
std::vector<const CLI::App*> shown_verbs(const CLI::App& app) {
  return app.get_subcommands([](const CLI::App* verb) { return !verb->get_group().empty(); });
}

/// Adds the names by which `explain` finds the verbs below `app`: "data", "data hash".
void add_verb_names(const CLI::App& app, const std::string& prefix,
                    std::vector<std::string>& names) {
  for (const CLI::App* verb : shown_verbs(app)) {
    names.push_back(prefix + verb->get_name());
    for (const std::string& alias : verb->get_aliases()) names.push_back(prefix + alias);
    add_verb_names(*verb, names.back() + " ", names);
  }
}

Meaning meaning_of(const CLI::App& verb) {
  const std::string usage = usage_line(verb);
  std::vector<std::string> flags;
  for (const CLI::Option* option : verb.get_options()) {
    if (!option->get_lnames().empty() && option->get_group() != "Global options")
      flags.push_back("--" + option->get_lnames().front());
  }
  std::vector<std::string> below;
  for (const CLI::App* one : shown_verbs(verb)) below.push_back(one->get_name());
  const std::string name = verb.get_name();
  std::string text = fmt::format("{}: {}\n  {:<9}{}\n  {:<9}{}\n", name, verb.get_description(),
                                 "type", "verb", "usage", usage);
  if (!below.empty()) text += fmt::format("  {:<9}{}\n", "verbs", join(below, ", "));
  if (!flags.empty()) text += fmt::format("  {:<9}{}\n", "flags", join(flags, ", "));
  return {text,
          {{"schema", "trainctl.explain/1"},
           {"key", name},
           {"type", "verb"},
           {"help", verb.get_description()},
           {"usage", usage},
           {"below", below},
           {"flags", flags}}};
}

/// Returns the verb of that name or alias, such as "data hash"; null if there is no such verb.
const CLI::App* verb_called(const CLI::App& program, const std::vector<std::string>& words) {
  const CLI::App* at = &program;
  for (const std::string& word : words) {
    const auto verbs = at->get_subcommands(
        [&](const CLI::App* one) { return one->check_name(word) && !one->get_group().empty(); });
    if (verbs.empty()) return nullptr;
    at = verbs.front();
  }
  return at;
}

/// `val/accuracy` is a value of the metric `accuracy`.
std::string without_split(const std::string& name) {
  for (const std::string_view prefix : {"train/", "val/", "test/"}) {
    if (name.starts_with(prefix)) return name.substr(prefix.size());
  }
  return name;
}

std::vector<Meaning> meanings_of(const std::vector<std::string>& words, const CLI::App& program) {
  const std::string name = join(words, " ");
  std::vector<Meaning> all;
  if (const auto code = exit_code_called(name))
    all.push_back(meaning_of("exit code", *code, std::string(code->name)));
  for (const config::Explanation& found : config::explain_name(
           without_split(name), spec::experiment_schema(), spec::vocabulary_in_use()))
    all.push_back(meaning_of(found));
  if (const auto value = value_called(name)) all.push_back(meaning_of("value", *value, name));
  if (const CLI::App* verb = verb_called(program, split(name, ' ')))
    all.push_back(meaning_of(*verb));
  if (!all.empty()) return all;
  std::vector<std::string> names = fact_names();
  for (std::string& known :
       config::explained_names(spec::experiment_schema(), spec::vocabulary_in_use()))
    names.push_back(std::move(known));
  add_verb_names(program, "", names);
  if (const auto near = nearest(without_split(name), names))
    throw Error(ErrorKind::config,
                fmt::format("unknown key {}: did you mean '{}'?", config::quote(name), *near));
  return {meaning_of(
      config::explain(name, spec::experiment_schema(), spec::vocabulary_in_use()))};  // throws
}

int explain_bottlenecks(const Context& context) {
  if (context.json) {
    print_json({{"schema", "trainctl.bottlenecks/1"}, {"rules", report::bottlenecks_json()}});
  } else {
    put(stdout, report::bottlenecks_page());
  }
  return 0;
}

int explain(const ExplainArguments& arguments, const CLI::App& program, const Context& context) {
  ENSURE(config, arguments.words.empty() == arguments.bottlenecks,
         "explain takes one NAME, as in 'trainctl explain optimizer.adam.lr', or --bottlenecks");
  if (arguments.bottlenecks) return explain_bottlenecks(context);
  use_plugin_files(arguments.plugins);
  const std::vector<Meaning> meanings = meanings_of(arguments.words, program);
  if (!context.json) {
    for (const Meaning& meaning : meanings)
      put(stdout, (&meaning == &meanings.front() ? "" : "\n") + meaning.text);
    return 0;
  }
  Json document = meanings.front().json;
  document["also"] = Json::array();
  for (std::size_t i = 1; i < meanings.size(); ++i) document["also"].push_back(meanings[i].json);
  print_json(document);
  return 0;
}

}  // namespace

void add_explain(CLI::App& program, Context& context) {
  const auto arguments = std::make_shared<ExplainArguments>();
  CLI::App& verb =
      add_verb(program, context,
               {"explain", "what a key, stage, verb, exit code or metric means", kConfigGroup},
               [arguments, &program, &context] { return explain(*arguments, program, context); });
  verb.add_option("name", arguments->words,
                  "trainer.max_epochs, lr, optimizer.adam, mixup, bench, 'exit code 6', "
                  "samples_per_s ...")
      ->type_name("NAME");
  verb.add_flag("--bottlenecks", arguments->bottlenecks,
                "what holds runs up: symptoms, diagnoses, fixes");
  add_plugin_option(verb, arguments->plugins);
}

}  // namespace trainctl::app
