#pragma once

#include "config/schema/describe.hpp"

#include <filesystem>
#include <map>
#include <optional>
#include <string>

namespace trainctl::spec {

/// The file that the training starts from.
struct Weights {
  static constexpr auto kSummary = "The file of weights that the training starts from.";

  std::filesystem::path path;
  std::optional<std::string> sha256;
  bool strict = true;
  std::string section;  // key of the state dict in a file of torch.save; "": the usual ones
  std::string prefix;
  std::map<std::string, std::string> key_map;

  static void describe(config::Describe<Weights>& options);  // weights.cpp
};

}  // namespace trainctl::spec

/// A path alone stands for the section that names it.
template <>
struct trainctl::config::Codec<trainctl::spec::Weights> {
  static const std::shared_ptr<const Schema>& schema();
  static FieldType type();
  static void read(Reader& reader, const Node& node, const Field& field, spec::Weights& out);
  static Node write(const spec::Weights& value);
};
