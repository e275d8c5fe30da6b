#pragma once

#include "config/diagnostics.hpp"
#include "config/schema/schema.hpp"

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace trainctl::config {

/// Converts nodes to typed values according to a schema. Problems are added to Diagnostics, and
/// reading continues, so that one pass finds all of them.
class Reader {
 public:
  Reader(const Vocabulary& vocabulary, Diagnostics& diagnostics)
      : vocabulary_(vocabulary), diagnostics_(diagnostics) {}

  /// Reads a map into the struct that `options` points to. `subject` is its name in errors:
  /// "optimizer 'adam'", "trainer".
  void object(const Node& node, const Schema& schema, const std::string& subject, void* options);

  /// Read a scalar. Return false, with a diagnostic and `out` unchanged, if the node does not fit.
  bool boolean(const Node& node, const Field& field, bool& out);
  bool integer(const Node& node, const Field& field, std::int64_t low, std::int64_t high,
               std::int64_t& out);
  bool number(const Node& node, const Field& field, double& out);
  bool string(const Node& node, const Field& field, std::string& out);
  bool path(const Node& node, const Field& field, std::filesystem::path& out);
  /// Reads the NAME of `${secret:NAME}`. No other value is accepted, so that no file contains one.
  bool secret(const Node& node, const Field& field, std::string& name);
  bool choice(const Node& node, const Field& field, const std::vector<std::string>& names,
              std::size_t& out);
  bool stage(const Node& node, const Field& field, const std::string& kind, Stage& out);

  /// Returns true if the node is the unquoted word `auto`.
  static bool is_auto(const Node& node);
  /// Returns true if the node is a list; otherwise adds a diagnostic. `length` 0 means any length.
  bool expect_list(const Node& node, const Field& field, std::size_t length);
  bool expect_map(const Node& node, const Field& field);

  Diagnostics& diagnostics() { return diagnostics_; }

 private:
  void fields(const Node& map, const Schema& schema, const std::string& subject, void* options);
  // `extra_fields` is a schema whose fields are in the same map; `type` is the stage that the
  // fields belong to. Both may be null.
  void reject_unknown(const Node& map, const Schema& schema, const std::string& subject,
                      const Schema* extra_fields, const StageType* type);
  [[nodiscard]] std::vector<std::string> others_with(const StageType& type,
                                                     const std::string& key) const;
  void missing(const Node& map, const Field& field, const std::string& subject);
  const StageType* type_of(const Node& map, const std::string& kind);
  const StageType* known_type(const Node& name, const std::string& kind);
  bool expect_scalar(const Node& node, const Field& field, const std::string& wanted);
  bool refuse_secret(const Node& node, const Field& field);
  bool fail(const Node& node, const Field& field, const std::string& wanted,
            const std::string& hint = {});

  const Vocabulary& vocabulary_;
  Diagnostics& diagnostics_;
  const Schema* extra_fields_ = nullptr;  // set by object() for the inline stage that is read next
};

/// Returns the tree of a stage as written to YAML: {type: adam, lr: 0.001, ...}, with defaults.
Node write_stage(const Stage& stage);

}  // namespace trainctl::config
