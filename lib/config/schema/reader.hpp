#pragma once

#include "config/diagnostics.hpp"
#include "config/schema/schema.hpp"

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace trainctl::config {

/// Turns nodes into typed values under a schema. Every problem goes into Diagnostics; reading goes
/// on, so that one pass finds them all.
class Reader {
 public:
  Reader(const Vocabulary& vocabulary, Diagnostics& diagnostics)
      : vocabulary_(vocabulary), diagnostics_(diagnostics) {}

  /// Reads a map into the struct behind `options`. `subject` names it in errors: "optimizer
  /// 'adam'", "trainer".
  void object(const Node& node, const Schema& schema, const std::string& subject, void* options);

  /// Scalars. False, with a diagnostic, where the node does not fit; `out` is then unchanged.
  bool boolean(const Node& node, const Field& field, bool& out);
  bool integer(const Node& node, const Field& field, std::int64_t low, std::int64_t high,
               std::int64_t& out);
  bool number(const Node& node, const Field& field, double& out);
  bool string(const Node& node, const Field& field, std::string& out);
  bool path(const Node& node, const Field& field, std::filesystem::path& out);
  /// The NAME of `${secret:NAME}`; nothing else is taken, so that no file holds the value itself.
  bool secret(const Node& node, const Field& field, std::string& name);
  bool choice(const Node& node, const Field& field, const std::vector<std::string>& names,
              std::size_t& out);
  bool stage(const Node& node, const Field& field, const std::string& kind, Stage& out);

  /// True where the node is the plain word `auto`.
  static bool is_auto(const Node& node);
  /// True where the node is a list; else a diagnostic. `length` 0: any.
  bool expect_list(const Node& node, const Field& field, std::size_t length);
  bool expect_map(const Node& node, const Field& field);

  Diagnostics& diagnostics() { return diagnostics_; }

 private:
  void fields(const Node& map, const Schema& schema, const std::string& subject, void* options);
  // `beside`: a schema whose fields share the map with these; `type`: the stage they belong to;
  // null for none.
  void reject_unknown(const Node& map, const Schema& schema, const std::string& subject,
                      const Schema* beside, const StageType* type);
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
  const Schema* beside_ = nullptr;  // set by object() for the inline stage that is read next
};

/// The tree of a stage as it would be written: {type: adam, lr: 0.001, ...}, defaults included.
Node write_stage(const Stage& stage);

}  // namespace trainctl::config
