#include "base/safetensors.hpp"
#include "checkpoint/export.hpp"
#include "cli/run_arguments.hpp"
#include "cli/verb.hpp"
#include "program.hpp"
#include "study/workers/worker_jobs.hpp"
#include "weights/torch_writer.hpp"

namespace trainctl::app {
namespace {

using checkpoint::Weights;

constexpr const char* kForceHelp = "replace an existing file";

enum class Format { safetensors, pth, torchscript };
constexpr std::array<const char*, 3> enum_names(Format) {
  return {"safetensors", "pth", "torchscript"};
}

/// File name extensions that imply a format.
struct Extension {
  const char* text;
  Format format;
};
constexpr std::array<Extension, 3> kExtensions{
    {{".safetensors", Format::safetensors}, {".pth", Format::pth}, {".pt", Format::torchscript}}};

struct ConvertArguments {
  std::string path;
  std::string out;
  std::string format;  // empty: from the extension of `out`
  bool force = false;
  std::string weights;  // empty: the weights that validation used
  SelectionFlags selection;
  QuantizeFlags quantize;
};

/// Refuses to replace an existing file unless --force is given.
void check_out(const ConvertArguments& arguments) {
  std::error_code ignored;
  const fs::file_status there = fs::symlink_status(arguments.out, ignored);
  if (there.type() == fs::file_type::not_found) return;
  ENSURE(config, there.type() != fs::file_type::directory,
         "--out must be a file, got the folder {}", printable(arguments.out));
  ENSURE(config, arguments.force, "--out: {} already exists\nhint: add --force to replace it",
         printable(arguments.out));
}

Weights weights_called(const std::string& name) {
  if (name.empty()) return Weights::validated;
  const auto found = enum_called<Weights>(name);
  ENSURE(config, found && *found != Weights::validated,
         "--weights must be model, ema or best, got '{}'", printable(name));
  return *found;
}

std::optional<Format> format_of_name(const std::string& out) {
  const std::string extension = fs::path(out).extension().string();
  const auto* found = std::ranges::find_if(
      kExtensions, [&](const Extension& known) { return extension == known.text; });
  return found == kExtensions.end() ? std::nullopt : std::optional(found->format);
}

/// Returns the format implied by the extension, or else --format. `.pt` is also a common extension
/// of state dicts.
Format export_format(const ConvertArguments& arguments) {
  const std::optional<Format> by_name = format_of_name(arguments.out);
  if (arguments.format.empty()) {
    ENSURE(config, by_name.has_value(),
           "--out must end in .safetensors, .pth (state dict) or .pt (TorchScript), got "
           "'{}'\nhint: set --format to safetensors, pth or torchscript",
           printable(arguments.out));
    return *by_name;
  }
  const auto asked = enum_called<Format>(arguments.format);
  ENSURE(config, asked.has_value(), "--format must be one of {}, got '{}'",
         fmt::join(enum_names(Format()), ", "), printable(arguments.format));
  const bool is_dict_in_pt = by_name == Format::torchscript && asked == Format::pth;
  ENSURE(config, !by_name || by_name == asked || is_dict_in_pt,
         "--format {} contradicts the extension of --out {}\nhint: remove --format or change --out",
         arguments.format, printable(arguments.out));
  return *asked;
}

checkpoint::Exported export_as(Format format, const fs::path& checkpoint, Weights weights,
                               const fs::path& out,
                               const std::optional<spec::Quantization>& quantize) {
  if (format == Format::torchscript)
    return study::export_script({checkpoint, weights, out, executable_path(), quantize});
  ENSURE(config, !quantize,
         "--quantize writes TorchScript, got --format {}\nhint: write a file that ends in .pt",
         enum_name(format));
  if (format == Format::safetensors) return checkpoint::export_weights(checkpoint, weights, out);
  return checkpoint::export_weights(checkpoint, weights, [&](const auto& tensors, const auto&) {
    weights::write_torch_file(out, tensors);
  });
}

std::string amount(std::size_t tensors, std::uint64_t bytes) {
  return fmt::format("{} tensor{}, {}", with_thousands(static_cast<long long>(tensors)),
                     plural(tensors), human_bytes(bytes));
}

int export_one(const ConvertArguments& arguments, Context& context) {
  const Weights weights = weights_called(arguments.weights);
  const Format format = export_format(arguments);
  check_out(arguments);
  const fs::path path = one_checkpoint(arguments.path);
  const auto quantize = quantization_of(arguments.quantize);
  const checkpoint::Exported done = export_as(format, path, weights, arguments.out, quantize);
  const std::string which = enum_name(done.weights);
  if (context.json) {
    print_json({{"schema", "trainctl.checkpoint_export/2"},
                {"checkpoint", path.string()},
                {"file", arguments.out},
                {"format", enum_name(format)},
                {"weights", which},
                {"quantized", quantize ? Json("int8") : Json(nullptr)},
                {"epoch", done.manifest.moment().epoch_number()},
                {"step", done.manifest.global_step},
                {"tensors", done.tensors},
                {"bytes", done.bytes}});
  } else if (!context.quiet) {
    const char* const of = done.weights == Weights::best ? "up to" : "of";
    print(fmt::format("{}: the {} weights {} {} ({}, {})", printable(arguments.out), which, of,
                      printable(path.filename().string()), enum_name(format),
                      amount(done.tensors, done.bytes)));
  }
  return 0;
}

int import_one(const ConvertArguments& arguments, Context& context) {
  ENSURE(config, format_of_name(arguments.out) == Format::safetensors,
         "--out must end in .safetensors, got '{}'", printable(arguments.out));
  check_out(arguments);
  const weights::Selection selection = selection_of(arguments.selection);
  const bool is_renamed = !selection.section.empty() || !selection.renaming.is_empty();
  ENSURE(config, is_renamed || weights::format_of(arguments.path) == weights::Format::torch,
         "{} must be a file written by torch.save\nhint: a safetensors file needs no import",
         printable(arguments.path));
  weights::import_weights(arguments.path, arguments.out, selection);
  const safetensors::File file(arguments.out);
  std::uint64_t bytes = 0;
  for (const safetensors::View& tensor : file.tensors()) bytes += tensor.bytes.size();
  const auto found = file.metadata().find(weights::kNotesKey);
  std::vector<std::string> notes;
  if (found != file.metadata().end()) notes = split(found->second, '\n');
  std::erase(notes, "");
  if (context.json) {
    print_json({{"schema", "trainctl.checkpoint_import/2"},
                {"source", arguments.path},
                {"file", arguments.out},
                {"tensors", file.tensors().size()},
                {"bytes", bytes},
                {"notes", notes}});
  } else if (!context.quiet) {
    print(fmt::format("{}: {}", printable(arguments.out), amount(file.tensors().size(), bytes)));
    for (const std::string& note : notes) print("  " + printable(note));
  }
  return 0;
}

}  // namespace

void add_checkpoint_export(CLI::App& checkpoint, Context& context) {
  const auto [verb, arguments] = add_verb(checkpoint, context,
                                          {"export", "write the weights of a checkpoint to a file",
                                           kTrainGroup, WorkingDirectory::existing},
                                          export_one);
  add_options(
      verb,
      {{"path", arguments.path, "PATH", "checkpoint, or a run folder (its newest checkpoint)"},
       {"--out", arguments.out, "FILE",
        "required: .safetensors, .pth (state dict) or .pt (TorchScript) file to write"},
       {"--force", arguments.force, kForceHelp}});
  verb.get_option("--out")->required();
  add_options(
      verb,
      {{"--format", arguments.format, "FORMAT",
        "file format: safetensors, pth or torchscript (default: by the extension of --out)"}});
  verb.footer(
      "Examples:\n"
      "  trainctl checkpoint export runs/mnist-ffn/latest --out weights.safetensors\n"
      "  trainctl checkpoint export runs/mnist-ffn/latest --out weights.pth\n"
      "  trainctl checkpoint export runs/mnist-ffn/latest --out model.pt\n"
      "  trainctl checkpoint export runs/mnist-ffn/latest --out int8.pt --quantize int8\n"
      "torch.load(\"weights.pth\", weights_only=True) returns a state dict.\n"
      "torch.jit.load(\"model.pt\") returns the model in evaluation mode. To export TorchScript,\n"
      "the data set must be present, because it defines the shape of a sample.\n"
      "--weights model: the trained weights; ema: their average by trainer.ema or trainer.swa;\n"
      "best: the best weights of the run up to this checkpoint.");
  add_quantize_flags(verb, arguments.quantize);
  add_options(verb,
              {{"--weights", arguments.weights, "WHICH",
                "weights to write: model, ema or best (default: ema if present, else model)"}});
}

void add_checkpoint_import(CLI::App& checkpoint, Context& context) {
  const auto [verb, arguments] =
      add_verb(checkpoint, context,
               {"import", "convert a PyTorch state dict to safetensors, in a sandbox", kTrainGroup},
               import_one);
  add_options(verb, {{"path", arguments.path, "FILE",
                      "file written by torch.save, for example .pth, .ckpt or .pth.tar"},
                     {"--out", arguments.out, "FILE", "required: safetensors file to write"},
                     {"--force", arguments.force, kForceHelp}});
  verb.get_option("--out")->required();
  add_selection_flags(verb, arguments.selection);
  verb.footer(
      "Examples:\n"
      "  trainctl checkpoint import lightning.ckpt --prefix model. --out weights.safetensors\n"
      "  trainctl checkpoint import timm.pth.tar --section state_dict_ema --out ema.safetensors");
}

}  // namespace trainctl::app
