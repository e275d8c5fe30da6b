#include "cli/verb.hpp"

namespace trainctl::app {
namespace {

struct ValidateArguments {
  std::vector<std::string> words;
  bool model = false;
};

struct Verdict {
  std::string file;
  int exit_code = 0;
  std::string message;
  config::Diagnostics diagnostics;
};

Verdict validate_file(const std::string& file, const std::vector<std::string>& overrides,
                      const ValidateArguments& arguments) {
  Verdict verdict{.file = file};
  try {
    study::TrainingSamples samples;
    const spec::Loaded loaded = spec::load_experiment(
        file, overrides, verdict.diagnostics, study::checks_for(study::Purpose::training, samples));
    if (arguments.model) check_model(loaded, samples, verdict.diagnostics);
    verdict.diagnostics.throw_if_errors();
  } catch (const Error& error) {
    verdict.exit_code = error.exit_code();
    verdict.message = error.what();
  }
  return verdict;
}

// An error in a config takes precedence over one in the data.
int worse(int a, int b) { return a == 2 || b == 2 ? 2 : std::max(a, b); }

Json document(const std::vector<Verdict>& verdicts, int exit_code) {
  Json files = Json::array();
  for (const Verdict& verdict : verdicts) {
    Json problems = problems_json(verdict.diagnostics);
    if (verdict.exit_code != 0 && verdict.diagnostics.error_count() == 0)
      problems.push_back(problem_json(verdict.file, verdict.message));
    files.push_back({{"file", bounded(verdict.file)},
                     {"ok", verdict.exit_code == 0},
                     {"exit_code", verdict.exit_code},
                     {"errors", problems}});
  }
  return {{"schema", "trainctl.validate/2"},
          {"ok", exit_code == 0},
          {"exit_code", exit_code},
          {"files", files}};
}

void print_verdict(const Verdict& verdict, const Context& context) {
  const std::string problems = verdict.diagnostics.render(color_for(context, stderr));
  if (!problems.empty() && !(context.quiet && verdict.exit_code == 0)) {
    put(stderr, problems);
  }
  if (verdict.exit_code == 0) {
    print(printable(verdict.file) + ": OK");
  } else if (verdict.diagnostics.error_count() == 0) {
    print_error(context, verdict.message);
  }
}

int validate(const ValidateArguments& arguments, const Context& context) {
  std::vector<std::string> files = arguments.words;
  const auto overrides_at = std::ranges::stable_partition(files, [](const std::string& word) {
                              return !is_override(word);
                            }).begin();
  const std::vector<std::string> overrides(overrides_at, files.end());
  files.erase(overrides_at, files.end());
  if (files.empty()) files.push_back(default_config(context, Builtin::quickstart));
  std::vector<Verdict> verdicts;
  int exit_code = 0;
  for (const std::string& file : files) {
    verdicts.push_back(validate_file(file, overrides, arguments));
    exit_code = worse(exit_code, verdicts.back().exit_code);
    if (!context.json) print_verdict(verdicts.back(), context);
  }
  if (context.json) print_json(document(verdicts, exit_code));
  return exit_code;
}

}  // namespace

void add_validate(CLI::App& program, Context& context) {
  const auto [verb, arguments] =
      add_verb(program, context,
               {"validate", "report every error in experiment files", kConfigGroup}, validate);
  verb.alias("check");
  add_options(
      verb,
      {{"words", arguments.words, "[CONFIG...] [key=value ...]",
        "experiment files (default: ./config.yaml, else a built-in one)\n"
        "overrides for each of the files"},
       {"-c,--config", arguments.words, "FILE", "additional experiment file"},
       {"--model", arguments.model,
        "also build the model; check that weights and patterns of parameter names match it"}});
  verb.footer(
      "Example: trainctl validate configs/quickstart.yaml optimizer.lr=0.01\n"
      "Reads only what is needed to count and describe the samples: lists, file headers and\n"
      "whole tables (csv, parquet). 'trainctl data hash CONFIG' loads all training samples.\n"
      "Exit codes: 0 all files are valid; 2 an error in a file; 9 an error in its data; 10 an\n"
      "error in its weights; 11 its remote data cannot be reached.");
}

}  // namespace trainctl::app
