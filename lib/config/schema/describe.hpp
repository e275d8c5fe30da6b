#pragma once

#include "config/schema/codec.hpp"

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
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
  std::string_view example = {};  // YAML
};

/// The part of Describe that is compiled once. A field is known by its offset in the options, so
/// the functions that read and write it are the same for all options with a value of that type.
class FieldList {
 protected:
  explicit FieldList(Schema& schema) : schema_(schema) {}

  template <class T>
  void add(std::string_view key, std::size_t offset, const Rules& rules, std::string_view help) {
    Field& field = append(key, rules, help, Codec<T>::type());
    field.read = [offset](Reader& reader, const Node& node, const Field& self, void* options) {
      Codec<T>::read(reader, node, self, *static_cast<T*>(at(options, offset)));
    };
    field.write = [offset](const void* options) {
      return Codec<T>::write(*static_cast<const T*>(at(options, offset)));
    };
  }
  void add_stage(std::string_view key, std::size_t offset, const std::string& kind,
                 const Rules& rules, std::string_view help);
  void add_stages(std::string_view key, std::size_t offset, const std::string& kind,
                  const Rules& rules, std::string_view help);
  void add_inline_stage(std::size_t offset, const std::string& kind);

 private:
  static void* at(void* options, std::size_t offset) {
    return static_cast<std::byte*>(options) + offset;
  }
  static const void* at(const void* options, std::size_t offset) {
    return static_cast<const std::byte*>(options) + offset;
  }
  static void set_stage(Field& field, std::size_t offset);
  Field& append(std::string_view key, const Rules& rules, std::string_view help, FieldType type);

  Schema& schema_;
};

/// Collects the fields of one options struct. Members may belong to a base struct that several
/// stages share: a struct without further fields inherits the describe() of the base, and a struct
/// with further fields calls it.
template <class Options>
class Describe : FieldList {
 public:
  /// `example` is any object of the type.
  Describe(Schema& schema, const Options& example) : FieldList(schema), example_(example) {}

  template <class T, class Owner>
  requires std::is_base_of_v<Owner, Options>
  void field(std::string_view key, T Owner::*member, const Rules& rules, std::string_view help) {
    add<T>(key, offset_of(member), rules, help);
  }
  template <class T, class Owner>
  void field(std::string_view key, T Owner::*member, std::string_view help) {
    field(key, member, Rules{}, help);
  }

  /// Adds a field that holds one stage of `kind`, e.g. `optimizer: {type: adam}` or in short form
  /// `optimizer: adam`.
  void stage(std::string_view key, Stage Options::*member, const std::string& kind,
             const Rules& rules, std::string_view help) {
    add_stage(key, offset_of(member), kind, rules, help);
  }
  void stage(std::string_view key, Stage Options::*member, const std::string& kind,
             std::string_view help) {
    stage(key, member, kind, Rules{}, help);
  }

  /// Adds a stage whose `type` and options are in the same map as the fields of this struct.
  void inline_stage(Stage Options::*member, const std::string& kind) {
    add_inline_stage(offset_of(member), kind);
  }

  void stages(std::string_view key, std::vector<Stage> Options::*member, const std::string& kind,
              const Rules& rules, std::string_view help) {
    add_stages(key, offset_of(member), kind, rules, help);
  }
  void stages(std::string_view key, std::vector<Stage> Options::*member, const std::string& kind,
              std::string_view help) {
    stages(key, member, kind, Rules{}, help);
  }

 private:
  template <class T, class Owner>
  std::size_t offset_of(T Owner::*member) const {
    const void* place = &(example_.*member);
    const void* start = &example_;
    return static_cast<std::size_t>(static_cast<const std::byte*>(place) -
                                    static_cast<const std::byte*>(start));
  }

  const Options& example_;
};

template <class Options>
Schema schema_of() {
  Schema schema;
  schema.summary = Options::kSummary;
  schema.make_default = [] { return std::static_pointer_cast<void>(std::make_shared<Options>()); };
  if constexpr (Described<Options>) {
    const std::shared_ptr<void> example = schema.make_default();
    Describe<Options> describe(schema, *static_cast<const Options*>(example.get()));
    Options::describe(describe);
  } else {
    static_assert(std::is_empty_v<Options>, "a struct with options describes them");
  }
  return schema;
}

}  // namespace trainctl::config
