#include "cli/verb.hpp"
#include "study/init/starter.hpp"

namespace trainctl::app {
namespace {

struct InitArguments {
  study::StarterRequest request;
  std::string data;
  std::string file = "config.yaml";
};

int init(InitArguments arguments, const Context& context) {
  study::StarterRequest& request = arguments.request;
  const fs::path file = request.file = arguments.file;
  request.data = arguments.data;
  const bool exists = fs::exists(fs::symlink_status(file));
  ENSURE(config, request.force || !exists,
         "{} already exists\nhint: choose another --out, or replace it with --force",
         printable(file.string()));
  // A mistyped --out must not replace data.
  ENSURE(
      config, !exists || file.extension() == ".yaml" || file.extension() == ".yml",
      "--force replaces only .yaml and .yml files, and {} is neither\nhint: choose another --out",
      printable(file.string()));
  study::Starter starter = study::make_starter(request);
  write_atomically(file, starter.yaml);
  const bool is_default = file.lexically_normal() == "config.yaml";  // found without an argument
  for (const std::string verb : {"trainctl validate", "trainctl run"})
    starter.commands.push_back(is_default ? verb : verb + " " + shell_word(file.string()));
  if (context.json)
    return print_json({{"schema", "trainctl.init/2"},
                       {"file", file.string()},
                       {"found", starter.facts},
                       {"next", starter.commands}});
  for (const auto& [name, value] : starter.facts) print(fmt::format("  {:<12}{}", name, value));
  print(fmt::format("wrote {}", printable(file.string())));
  for (const std::string& command : starter.commands) print("next: " + printable(command));
  return 0;
}

}  // namespace

void add_init(CLI::App& program, Context& context) {
  const auto [verb, arguments] = add_verb(
      program, context,
      {"init", "inspect your data and write an experiment file for it", kConfigGroup}, init);
  add_options(
      verb, {{"kind", arguments.request.kind, "KIND", "kind of the data, see below"},
             {"data", arguments.data, "[DATA]", "file or folder (default for mnist: data/mnist)"},
             {"--out", arguments.file, "FILE", "experiment file to write (default: config.yaml)"},
             {"--target", arguments.request.target, "NAME",
              "column to predict (default: label, target, class or y, otherwise the last column)"},
             {"--force", arguments.request.force, "replace an existing file"}});
  verb.footer(
      "mnist         folder with the four files of MNIST\n"
      "image-folder  folder with one folder of images per class, perhaps in train/ and val/\n"
      "tabular       CSV or Parquet file with column names\n"
      "text          text file, for a small GPT\n"
      "Example: trainctl init image-folder photos");
}

}  // namespace trainctl::app
