#include "config/schema/explain.hpp"

#include "cli/help.hpp"
#include "cli/verb.hpp"
#include "config/wording.hpp"
#include "report/diagnosis/bottleneck_rules.hpp"
#include "spec/load.hpp"
#include "spec/plugins.hpp"

namespace trainctl::app {
namespace {

/// A name that is neither a key nor a type: an exit code or a reported value.
struct NamedFact {
  std::string_view name;  // e.g. "6", "samples_per_s"
  std::string_view meaning;
};

constexpr std::array kExitCodes{
    NamedFact{"0", "done"},
    NamedFact{"1", "unexpected failure: a bug in trainctl, please report it"},
    NamedFact{"2", "error in the command line or in the experiment file"},
    NamedFact{"3",
              "a check failed: a change named in --fail-on occurred, or results that must be equal "
              "differ"},
    NamedFact{"4", "inconclusive: the measurements are too noisy to decide; repeat more often"},
    NamedFact{"5", "some runs of a sweep failed; see the table of the sweep"},
    NamedFact{"6", "diverged: a loss or gradient is not finite; see trainer.on_divergence"},
    NamedFact{"7", "a rank failed and no restart was left; see trainer.max_restarts"},
    NamedFact{"8", "hang or time-out: no step within trainer.hang_timeout"},
    NamedFact{"9", "error in the data; the message names the file and the sample"},
    NamedFact{"10", "error in a checkpoint or in weights; see trainctl checkpoint verify"},
    NamedFact{"11", "a resource is missing: disk, memory, port, lock or device"},
    NamedFact{"75", "stopped on request after a verified checkpoint: resume with --resume auto"},
    NamedFact{"93", "no progress in 3 restarts; a batch system should not requeue the job"},
    NamedFact{"130", "interrupted with Ctrl-C"},
    NamedFact{"143", "terminated (SIGTERM) before a checkpoint could be saved"},
};

constexpr std::array kValues{
    NamedFact{"epoch", "epoch of training"},
    NamedFact{"step", "optimizer steps since the start of the run"},
    NamedFact{"lr", "learning rate of the first parameter group"},
    NamedFact{"train", "value of a metric on the training samples, for example train/loss"},
    NamedFact{"val", "value of a metric on dataset.val after an epoch, for example val/accuracy"},
    NamedFact{"loss", "mean loss of the samples: train/loss or val/loss"},
    NamedFact{"wall_s", "seconds of an epoch, the sum of its parts (data_wait_s, h2d_s, ...)"},
#define TIMING_PHASE(phase, member, kind, range, column, label, brief, help) \
  NamedFact{#member, help},
#include "events/timing_fields.def"
#undef TIMING_PHASE
    NamedFact{"samples", "samples of an epoch, over all ranks"},
    NamedFact{"samples_per_s", "samples of training per second, over all ranks"},
    NamedFact{"first_batch_s", "seconds until the first batch of an epoch"},
    NamedFact{"cpu_percent", "CPU time of rank 0, in percent of the time of one core"},
    NamedFact{"rss_mb", "largest resident memory of rank 0 so far, in MB"},
    NamedFact{"gpu_util", "utilization of the GPU in percent, as NVML reports it"},
    NamedFact{"gpu_mem_mb", "largest GPU memory that PyTorch has allocated so far, in MB"},
    NamedFact{"read_mb_s", "MB read from disks per second"},
    NamedFact{"total_s", "seconds of a whole run, which bench compares"},
    NamedFact{"speedup", "how many times as fast as the baseline, with a 95 % confidence interval"},
    NamedFact{"headroom", "largest possible speedup of a run, estimated from its bottleneck"},
    NamedFact{"convert", "column of the epoch table that shows h2d_s of a run on a CPU"},
    NamedFact{"h2d", "column of the epoch table that shows h2d_s of a run on a GPU"},
};

/// Columns of the epoch table; the name is empty for a phase without a column.
constexpr std::array kColumns{
#define TIMING_PHASE(phase, member, kind, range, column, ...) \
  NamedFact{column, "column of the epoch table that shows " #member},
#include "events/timing_fields.def"
#undef TIMING_PHASE
};

template <std::size_t N>
std::optional<NamedFact> find_fact(const std::array<NamedFact, N>& facts, std::string_view name) {
  const auto found = std::ranges::find(facts, name, &NamedFact::name);
  return found == facts.end() ? std::nullopt : std::optional(*found);
}

/// Returns the exit code that `text` names: "6", "exit code 6", "exit 6".
std::optional<NamedFact> exit_code_called(const std::string& text) {
  std::string_view code = text;
  for (const std::string_view prefix : {"exit code ", "exit_code ", "exit "}) {
    if (!code.starts_with(prefix)) continue;
    code.remove_prefix(prefix.size());
    break;
  }
  return find_fact(kExitCodes, code);
}

/// Returns the value of tables, CSV and JSON files that `text` names; `val/accuracy` is found by
/// the part before the '/'.
std::optional<NamedFact> value_called(const std::string& text) {
  if (auto found = find_fact(kValues, text)) return found;
  return text.starts_with("train/") || text.starts_with("val/")
             ? find_fact(kValues, std::string_view(text).substr(0, text.find('/')))
             : std::nullopt;
}

std::vector<std::string> fact_names() {
  std::vector<std::string> names;
  for (const NamedFact& fact : kValues) names.emplace_back(fact.name);
  for (const NamedFact& fact : kColumns) {
    if (!fact.name.empty()) names.emplace_back(fact.name);
  }
  return names;
}

struct ExplainArguments {
  std::vector<std::string> words;
  std::vector<std::string> plugins;
  bool bottlenecks = false;
};

/// One meaning of a name, as text and as a JSON document.
struct Meaning {
  std::string text;
  Json json;
};

Meaning meaning_of(const config::Explanation& found) {
  return {config::to_text(found), config::to_json(found)};
}

Meaning meaning_of(const char* what, const NamedFact& fact, const std::string& name) {
  Json json = {
      {"schema", "trainctl.explain/2"}, {"key", name}, {"type", what}, {"help", fact.meaning}};
  return {fmt::format("{}: {}\n  {:<9}{}\n", printable(name), fact.meaning, "type", what),
          std::move(json)};
}

/// Returns the commands below `app` that the help lists.
std::vector<const CLI::App*> shown_verbs(const CLI::App& app) {
  return app.get_subcommands([](const CLI::App* verb) { return !verb->get_group().empty(); });
}

/// Adds the names by which `explain` finds the commands below `app`: "data", "data hash".
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
                                 "type", "command", "usage", usage);
  if (!below.empty()) text += fmt::format("  {:<9}{}\n", "commands", join(below, ", "));
  if (!flags.empty()) text += fmt::format("  {:<9}{}\n", "flags", join(flags, ", "));
  return {text,
          {{"schema", "trainctl.explain/2"},
           {"key", name},
           {"type", "command"},
           {"help", verb.get_description()},
           {"usage", usage},
           {"below", below},
           {"flags", flags}}};
}

/// Returns the command with that name or alias, such as "data hash"; null if no command has it.
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

/// Removes the split: `val/accuracy` is a value of the metric `accuracy`.
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
  if (const auto column = find_fact(kColumns, name); column && !name.empty())
    return {meaning_of("value", *column, name)};
  std::vector<std::string> names = fact_names();
  for (std::string& known :
       config::explained_names(spec::experiment_schema(), spec::vocabulary_in_use()))
    names.push_back(std::move(known));
  add_verb_names(program, "", names);
  if (const auto near = nearest(without_split(name), names))
    THROW(config, "unknown key {}: did you mean '{}'?", config::quote(name), *near);
  return {meaning_of(
      config::explain(name, spec::experiment_schema(), spec::vocabulary_in_use()))};  // or throws
}

int explain_bottlenecks(const Context& context) {
  if (context.json)
    return print_json(
        {{"schema", "trainctl.bottlenecks/2"}, {"rules", report::bottlenecks_json()}});
  put(stdout, report::bottlenecks_page());
  return 0;
}

int explain(const ExplainArguments& arguments, const Context& context) {
  ENSURE(config, arguments.words.empty() == arguments.bottlenecks,
         "explain requires either a NAME, as in 'trainctl explain lr', or --bottlenecks");
  if (arguments.bottlenecks) return explain_bottlenecks(context);
  use_plugin_files(arguments.plugins);
  const std::vector<Meaning> meanings = meanings_of(arguments.words, *context.program);
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
  const auto [verb, arguments] = add_verb(
      program, context,
      {"explain", "explain a key, stage, command, exit code or metric", kConfigGroup}, explain);
  add_options(verb, {{"name", arguments.words, "NAME",
                      "what to explain: trainer.max_epochs, lr, optimizer.adam, bench, 'exit code "
                      "6', samples_per_s, ..."},
                     {"--bottlenecks", arguments.bottlenecks,
                      "list all bottlenecks: symptoms, diagnoses, fixes"}});
  verb.get_option("name")->required(false);  // --bottlenecks needs none
  add_plugin_option(verb, arguments.plugins);
}

}  // namespace trainctl::app
