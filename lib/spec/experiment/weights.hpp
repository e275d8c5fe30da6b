#pragma once

#include "config/schema/describe.hpp"

#include <filesystem>
#include <map>
#include <optional>
#include <string>

namespace trainctl::spec {

/// The weights file that the training starts from.
struct Weights {
  static constexpr auto kSummary = "File with the initial weights.";

  std::filesystem::path path;
  std::optional<std::string> sha256;
  bool strict = true;
  std::string section;  // key of the state dict in a file of torch.save; "": the usual keys
  std::string prefix;
  std::map<std::string, std::string> key_map;

  static void describe(auto& options) {
    options.field("path", &Weights::path, {.required = true, .example = "resnet18.pth"},
                  "A safetensors file, or a state dict of PyTorch: .pth, .pt, .ckpt, .bin.");
    options.field("sha256", &Weights::sha256, {.not_empty = true},
                  "Expected SHA-256 of the file, 64 hex digits; absent: not checked.");
    options.field("strict", &Weights::strict,
                  "true: the file and the model must have the same tensors; false: tensors that "
                  "only one of them has are skipped and reported.");
    options.field("section", &Weights::section, {.example = "state_dict_ema"},
                  "Key of the state dict in a PyTorch file with several state dicts; empty: the "
                  "file itself, or the first of state_dict, model_state_dict, model, "
                  "state_dict_ema, model_ema and net that it contains.");
    options.field("prefix", &Weights::prefix, {.example = "\"model.\""},
                  "Prefix of the tensors to load; it is removed from their names.");
    options.field("key_map", &Weights::key_map,
                  {.example = "{\"encoder.\": \"backbone.\", head.weight: fc.weight}"},
                  "Renames tensors: maps names in the file to names in the model; a name that ends "
                  "with '.' is a prefix.");
  }
};

}  // namespace trainctl::spec

/// In YAML a path alone is a short form of the section.
template <>
struct trainctl::config::Codec<trainctl::spec::Weights> {
  static const std::shared_ptr<const Schema>& schema();
  static FieldType type();
  static void read(Reader& reader, const Node& node, const Field& field, spec::Weights& out);
  static Node write(const spec::Weights& value);
};
