#pragma once

#include "config/schema/codec.hpp"

#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

// How an options struct describes itself. One block is the source of parsing, errors, JSON Schema,
// explain, docs, completion and the resolved dump; types and defaults come from the struct:
//
//   struct Adam {
//     static constexpr auto kSummary = "Adam with the fused kernel (Kingma & Ba 2014).";
//     double lr = 1e-3;
//     std::array<double, 2> betas{0.9, 0.999};
//
//     static void describe(auto& options) {
//       options.field("lr", &Adam::lr, {.above = 0}, "Learning rate.");
//       options.field("betas", &Adam::betas, {.at_least = 0, .below = 1}, "Decay rates.");
//     }
//   };
//
// Member types: bool, int, std::int64_t, double, std::string, std::filesystem::path (relative to
// the file that names it), enum with `constexpr auto enum_names(E)` found by ADL, Auto<T> (the word
// auto, or a T), std::vector<T>, std::array<T, N>, std::optional<T> (absent or null),
// std::map<std::string, T>, a described struct, Stage and std::vector<Stage>
// (options.stage("optimizer", &Experiment::optimizer, "optimizer", "...")). A struct may have one
// inline stage, whose keys are in the same map as its own: {type: mnist, root: data, transforms:
// [...]} is options.inline_stage(&DataSplit::dataset, "dataset").

namespace trainctl::config {

/// The constraints of an option, with an example, as part of its declaration: {.required = true,
/// .at_least = 1, .example = "30"}.
struct Rules {
  bool required = false;
  bool not_empty = false;
  bool allows_non_finite = false;
  std::optional<double> above = {};
  std::optional<double> at_least = {};
  std::optional<double> below = {};
  std::optional<double> at_most = {};
  std::string example = {};  // YAML
};

/// Collects the fields of one options struct. Members may belong to a base struct that several
/// stages share: a struct without further fields inherits the describe() of the base, and a struct
/// with further fields calls it.
template <class Options>
class Describe {
 public:
  explicit Describe(Schema& schema) : schema_(schema) {}

  template <class T, class Owner>
  requires std::is_base_of_v<Owner, Options>
  void field(std::string key, T Owner::*member, Rules rules, std::string help) {
    Field& field = append(std::move(key), std::move(rules), std::move(help), Codec<T>::type());
    field.read = [member](Reader& reader, const Node& node, const Field& self, void* options) {
      Codec<T>::read(reader, node, self, static_cast<Options*>(options)->*member);
    };
    field.write = [member](const void* options) {
      return Codec<T>::write(static_cast<const Options*>(options)->*member);
    };
  }
  template <class T, class Owner>
  void field(std::string key, T Owner::*member, std::string help) {
    field(std::move(key), member, Rules{}, std::move(help));
  }

  /// Adds a field that holds one stage of `kind`, e.g. `optimizer: {type: adam}` or in short form
  /// `optimizer: adam`.
  void stage(std::string key, Stage Options::*member, const std::string& kind, Rules rules,
             std::string help) {
    set_stage(append(std::move(key), std::move(rules), std::move(help),
                     {.type = ValueType::stage, .stage_kind = kind}),
              member, kind);
  }
  void stage(std::string key, Stage Options::*member, const std::string& kind, std::string help) {
    stage(std::move(key), member, kind, Rules{}, std::move(help));
  }

  /// Adds a stage whose `type` and options are in the same map as the fields of this struct.
  void inline_stage(Stage Options::*member, const std::string& kind) {
    Field field;
    field.key = kind;
    field.type = {.type = ValueType::stage, .stage_kind = kind};
    set_stage(field, member, kind);
    schema_.inline_stage = std::make_shared<const Field>(std::move(field));
  }

  void stages(std::string key, std::vector<Stage> Options::*member, const std::string& kind,
              Rules rules, std::string help) {
    FieldType item{.type = ValueType::stage, .stage_kind = kind};
    Field& field = append(
        std::move(key), std::move(rules), std::move(help),
        {.type = ValueType::list, .item = std::make_shared<const FieldType>(std::move(item))});
    field.read = [member, kind](Reader& reader, const Node& node, const Field& self,
                                void* options) {
      if (!reader.expect_list(node, self, 0)) return;
      std::vector<Stage>& list = static_cast<Options*>(options)->*member;
      list.clear();
      for (const Node& one : node.items) reader.stage(one, self, kind, list.emplace_back());
    };
    field.write = [member](const void* options) {
      Node list = Node::list();
      for (const Stage& one : static_cast<const Options*>(options)->*member)
        list.items.push_back(write_stage(one));
      return list;
    };
  }
  void stages(std::string key, std::vector<Stage> Options::*member, const std::string& kind,
              std::string help) {
    stages(std::move(key), member, kind, Rules{}, std::move(help));
  }

 private:
  Field& append(std::string key, Rules rules, std::string help, FieldType type) {
    Field& field = schema_.fields.emplace_back();
    field.key = std::move(key);
    field.help = std::move(help);
    field.example = std::move(rules.example);
    field.type = std::move(type);
    field.required = rules.required;
    field.not_empty = rules.not_empty;
    field.allows_non_finite = rules.allows_non_finite;
    if (rules.above) field.minimum = {*rules.above, /*inclusive=*/false};
    if (rules.at_least) field.minimum = {*rules.at_least, /*inclusive=*/true};
    if (rules.below) field.maximum = {*rules.below, /*inclusive=*/false};
    if (rules.at_most) field.maximum = {*rules.at_most, /*inclusive=*/true};
    return field;
  }

  static void set_stage(Field& field, Stage Options::*member, const std::string& kind) {
    field.read = [member, kind](Reader& reader, const Node& node, const Field& self,
                                void* options) {
      reader.stage(node, self, kind, static_cast<Options*>(options)->*member);
    };
    field.write = [member](const void* options) {
      return write_stage(static_cast<const Options*>(options)->*member);
    };
  }

  Schema& schema_;
};

template <class Options>
Schema schema_of() {
  Schema schema;
  schema.summary = Options::kSummary;
  schema.make_default = [] { return std::static_pointer_cast<void>(std::make_shared<Options>()); };
  if constexpr (Described<Options>) {
    Describe<Options> describe(schema);
    Options::describe(describe);
  } else {
    static_assert(std::is_empty_v<Options>, "a struct with options describes them");
  }
  return schema;
}

}  // namespace trainctl::config
