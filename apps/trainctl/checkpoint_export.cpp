#include "base/safetensors.hpp"
#include "base/strings.hpp"
#include "checkpoint/export.hpp"
#include "checkpoint_paths.hpp"
#include "checkpoint_verbs.hpp"
#include "context.hpp"
#include "weights/import.hpp"

#include <CLI/CLI.hpp>

#include <memory>
#include <string>
#include <system_error>

namespace trainctl::app {
namespace {

using checkpoint::Weights;

struct ConvertArguments {
  std::string path;
  std::string out;
  bool force = false;
  std::string weights;  // empty: what validation saw
};

/// What is there is somebody's: it stays unless --force says otherwise.
void check_out(const ConvertArguments& arguments) {
  std::error_code ignored;
  const fs::file_status there = fs::symlink_status(arguments.out, ignored);
  if (there.type() == fs::file_type::not_found) return;
  ENSURE(config, there.type() != fs::file_type::directory, "--out: {} is a folder; name a file",
         printable(arguments.out));
  ENSURE(config, arguments.force, "--out: {} is there already; add --force to replace it",
         printable(arguments.out));
}

Weights weights_called(const std::string& name) {
  if (name.empty()) return Weights::validated;
  for (const Weights weights : {Weights::model, Weights::ema, Weights::best}) {
    if (name == checkpoint::enum_names(weights).at(static_cast<std::size_t>(weights)))
      return weights;
  }
  throw Error(ErrorKind::config,
              fmt::format("--weights: '{}' is not one of model, ema, best", printable(name)));
}

std::string amount(std::size_t tensors, std::uint64_t bytes) {
  return fmt::format("{} tensor{}, {}", with_thousands(static_cast<long long>(tensors)),
                     tensors == 1 ? "" : "s", human_bytes(static_cast<double>(bytes)));
}

int export_one(const ConvertArguments& arguments, Context& context) {
  const Weights wish = weights_called(arguments.weights);
  check_out(arguments);
  const fs::path path = one_checkpoint(arguments.path);
  const checkpoint::Exported done = checkpoint::export_weights(path, wish, arguments.out);
  const std::string which =
      checkpoint::enum_names(done.weights).at(static_cast<std::size_t>(done.weights));
  if (context.json) {
    print_json({{"schema", "trainctl.checkpoint_export/1"},
                {"checkpoint", path.string()},
                {"file", arguments.out},
                {"weights", which},
                {"epoch", done.manifest.epoch},
                {"step", done.manifest.global_step},
                {"tensors", done.tensors},
                {"bytes", done.bytes}});
  } else if (!context.quiet) {
    print(fmt::format("{}: the {} weights of {} ({})", printable(arguments.out), which,
                      printable(path.filename().string()), amount(done.tensors, done.bytes)));
  }
  return 0;
}

int import_one(const ConvertArguments& arguments, Context& context) {
  check_out(arguments);
  ENSURE(config, weights::format_of(arguments.path) == weights::Format::torch,
         "{} is no file of torch.save; a safetensors file needs no import",
         printable(arguments.path));
  weights::import_torch(arguments.path, arguments.out);
  const safetensors::File file(arguments.out);
  std::uint64_t bytes = 0;
  for (const safetensors::View& tensor : file.tensors()) bytes += tensor.bytes.size();
  const auto found = file.metadata().find(weights::kNotesKey);
  const std::string notes = found == file.metadata().end() ? "" : found->second;
  if (context.json) {
    Json list = Json::array();
    for (const std::string& note : split(notes, '\n')) {
      if (!note.empty()) list.push_back(note);
    }
    print_json({{"schema", "trainctl.checkpoint_import/1"},
                {"source", arguments.path},
                {"file", arguments.out},
                {"tensors", file.tensors().size()},
                {"bytes", bytes},
                {"notes", list}});
  } else if (!context.quiet) {
    print(fmt::format("{}: {}", printable(arguments.out), amount(file.tensors().size(), bytes)));
    for (const std::string& note : split(notes, '\n')) {
      if (!note.empty()) print("  " + printable(note));
    }
  }
  return 0;
}

void add_conversion(CLI::App& verb, ConvertArguments& arguments, const char* type) {
  const std::string what = std::string(type) == "PATH"
                               ? "a checkpoint; a run folder stands for its newest one"
                               : "what torch.save made of a state dict";
  verb.add_option("path", arguments.path, what)->type_name(type)->required();
  verb.add_option("--out", arguments.out, "the safetensors file to write")
      ->type_name("FILE")
      ->required();
  verb.add_flag("--force", arguments.force, "replace the file where it is there already");
}

}  // namespace

void add_checkpoint_export(CLI::App& checkpoint, Context& context) {
  const auto arguments = std::make_shared<ConvertArguments>();
  CLI::App& verb = add_verb(checkpoint, context,
                            {"export", "weights of a checkpoint as safetensors", kTrainGroup},
                            [arguments, &context] { return export_one(*arguments, context); });
  add_conversion(verb, *arguments, "PATH");
  verb.add_option("--weights", arguments->weights,
                  "model, ema, best (default: the average where there is one, else the model's)")
      ->type_name("WHICH");
}

void add_checkpoint_import(CLI::App& checkpoint, Context& context) {
  const auto arguments = std::make_shared<ConvertArguments>();
  CLI::App& verb = add_verb(
      checkpoint, context,
      {"import", "a state dict of torch.save as safetensors, read in a sandbox", kTrainGroup},
      [arguments, &context] { return import_one(*arguments, context); });
  add_conversion(verb, *arguments, "FILE.pth");
}

}  // namespace trainctl::app
