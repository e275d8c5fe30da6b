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
//     static void describe(config::Describe<Adam>& options) {
//       options.field("lr", &Adam::lr, "Learning rate.").above(0);
//       options.field("betas", &Adam::betas, "Decay of the running
//       averages.").at_least(0).below(1);
//     }
//   };
//
// Member types: bool, int, std::int64_t, double, std::string, std::filesystem::path (relative to
// the file that names it), enum with `constexpr auto enum_names(E)` found by ADL, Auto<T> (the word
// auto, or a T), std::vector<T>, std::array<T, N>, std::optional<T> (absent or null),
// std::map<std::string, T>, a described struct, Stage and std::vector<Stage>
// (options.stage("optimizer", &Experiment::optimizer, "optimizer", "...")). A struct may hold one
// stage whose keys stand beside its own, as in {type: mnist, root: data, transforms: [...]}:
// options.inline_stage(&DataSplit::dataset, "dataset").

namespace trainctl::config {

/// Bounds and remarks of the field just described.
class FieldBuilder {
 public:
  explicit FieldBuilder(Field& field) : field_(field) {}
  FieldBuilder& above(double value) { return set(field_.minimum, value, false); }
  FieldBuilder& at_least(double value) { return set(field_.minimum, value, true); }
  FieldBuilder& below(double value) { return set(field_.maximum, value, false); }
  FieldBuilder& at_most(double value) { return set(field_.maximum, value, true); }
  FieldBuilder& required() {
    field_.required = true;
    return *this;
  }
  FieldBuilder& not_empty() {
    field_.not_empty = true;
    return *this;
  }
  FieldBuilder& allows_non_finite() {
    field_.allows_non_finite = true;
    return *this;
  }
  FieldBuilder& example(std::string yaml) {
    field_.example = std::move(yaml);
    return *this;
  }

 private:
  FieldBuilder& set(std::optional<Bound>& bound, double value, bool inclusive) {
    bound = Bound{value, inclusive};
    return *this;
  }
  Field& field_;
};

/// Collects the fields of one options struct. The builder returned by `field` is used at once, in
/// the same statement.
template <class Options>
class Describe {
 public:
  explicit Describe(Schema& schema) : schema_(schema) {}

  template <class T>
  FieldBuilder field(std::string key, T Options::*member, std::string help) {
    Field& field = append(std::move(key), std::move(help), Codec<T>::type());
    field.read = [member](Reader& reader, const Node& node, const Field& self, void* options) {
      Codec<T>::read(reader, node, self, static_cast<Options*>(options)->*member);
    };
    field.write = [member](const void* options) {
      return Codec<T>::write(static_cast<const Options*>(options)->*member);
    };
    return FieldBuilder(field);
  }

  /// A field that holds one stage of `kind`, e.g. `optimizer: {type: adam}` or the short form
  /// `optimizer: adam`.
  FieldBuilder stage(std::string key, Stage Options::*member, const std::string& kind,
                     std::string help) {
    Field& field =
        append(std::move(key), std::move(help), {.type = ValueType::stage, .stage_kind = kind});
    field.read = [member, kind](Reader& reader, const Node& node, const Field& self,
                                void* options) {
      reader.stage(node, self, kind, static_cast<Options*>(options)->*member);
    };
    field.write = [member](const void* options) {
      return write_stage(static_cast<const Options*>(options)->*member);
    };
    return FieldBuilder(field);
  }

  /// A stage whose `type` and options stand beside the fields of this struct, in the same map.
  void inline_stage(Stage Options::*member, const std::string& kind) {
    Field field;
    field.key = kind;
    field.type = {.type = ValueType::stage, .stage_kind = kind};
    field.read = [member, kind](Reader& reader, const Node& node, const Field& self,
                                void* options) {
      reader.stage(node, self, kind, static_cast<Options*>(options)->*member);
    };
    field.write = [member](const void* options) {
      return write_stage(static_cast<const Options*>(options)->*member);
    };
    schema_.inline_stage = std::make_shared<const Field>(std::move(field));
  }

  FieldBuilder stages(std::string key, std::vector<Stage> Options::*member, const std::string& kind,
                      std::string help) {
    FieldType item{.type = ValueType::stage, .stage_kind = kind};
    Field& field = append(
        std::move(key), std::move(help),
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
    return FieldBuilder(field);
  }

  /// The fields of a base struct that several stages share, e.g. the warm-up of every scheduler.
  template <class Base>
  void include() {
    static_assert(std::is_base_of_v<Base, Options>);
    Describe<Base> base(schema_);
    Base::describe(base);
  }

 private:
  Field& append(std::string key, std::string help, FieldType type) {
    Field& field = schema_.fields.emplace_back();
    field.key = std::move(key);
    field.help = std::move(help);
    field.type = std::move(type);
    return field;
  }

  Schema& schema_;
};

template <class Options>
Schema schema_of() {
  Schema schema;
  schema.summary = Options::kSummary;
  schema.make_default = [] { return std::static_pointer_cast<void>(std::make_shared<Options>()); };
  Describe<Options> describe(schema);
  Options::describe(describe);
  return schema;
}

}  // namespace trainctl::config
