#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <limits>
#include <type_traits>
#include <utility>
#include <vector>

#include "config/reader.hpp"
#include "config/schema.hpp"
#include "config/stage.hpp"

// How an options struct describes itself. One block is the source of parsing, errors, JSON Schema, explain, docs,
// completion and the resolved dump; types and defaults come from the struct:
//
//   struct Adam {
//     static constexpr auto kSummary = "Adam with the fused kernel (Kingma & Ba 2014).";
//     double lr = 1e-3;
//     std::array<double, 2> betas{0.9, 0.999};
//
//     static void describe(config::Describe<Adam>& options) {
//       options.field("lr", &Adam::lr, "Learning rate.").above(0);
//       options.field("betas", &Adam::betas, "Decay of the running averages.").at_least(0).below(1);
//     }
//   };
//
// Member types: bool, int, std::int64_t, double, std::string, std::filesystem::path (relative to the file that names
// it), enum with `constexpr auto enum_names(E)` found by ADL, Auto<T> (the word auto, or a T), std::vector<T>, std::array<T, N>,
// std::optional<T> (absent or null), std::map<std::string, T>, a described struct, Stage and std::vector<Stage>
// (options.stage("optimizer", &Experiment::optimizer, "optimizer", "...")). A struct may hold one stage whose keys stand
// beside its own, as in {type: mnist, root: data, transforms: [...]}: options.inline_stage(&DataSplit::dataset, "dataset").

namespace trainctl::config {

/// The word `auto`, or a value.
template <class T>
struct Auto {
  std::optional<T> value;
  [[nodiscard]] bool is_auto() const { return !value.has_value(); }
  [[nodiscard]] T value_or(T fallback) const { return value.value_or(fallback); }
  bool operator==(const Auto&) const = default;
};

/// What an enum's names look like: enumerators count from 0 and the names stand in the same order.
///   enum class Mode { min, max };
///   constexpr std::array<const char*, 2> enum_names(Mode) { return {"min", "max"}; }
template <class E>
concept NamedEnum = std::is_enum_v<E> && requires(E e) { enum_names(e); };

template <class Options>
class Describe;

template <class Options>
concept Described = requires(Describe<Options>& d) { Options::describe(d); };

/// How one C++ type is described, read and written. `read` reports through the Reader.
template <class T>
struct Codec;

template <>
struct Codec<bool> {
  static FieldType type() { return {.type = ValueType::boolean}; }
  static void read(Reader& reader, const Node& node, const Field& field, bool& out) { reader.boolean(node, field, out); }
  static Node write(bool value) { return Node::scalar(value ? "true" : "false"); }
};

template <class T>
  requires std::is_integral_v<T>
struct Codec<T> {
  static FieldType type() { return {.type = ValueType::integer}; }
  static void read(Reader& reader, const Node& node, const Field& field, T& out) {
    constexpr bool kWide = sizeof(T) == 8 && std::is_unsigned_v<T>;
    constexpr auto kLow = static_cast<std::int64_t>(std::numeric_limits<T>::min());
    constexpr auto kHigh =
        kWide ? std::numeric_limits<std::int64_t>::max() : static_cast<std::int64_t>(std::numeric_limits<T>::max());
    std::int64_t value = 0;
    if (reader.integer(node, field, kLow, kHigh, value)) out = static_cast<T>(value);
  }
  static Node write(T value) { return Node::scalar(std::to_string(value)); }
};

/// The shortest text that reads back as the same double.
std::string number_text(double value);

template <>
struct Codec<double> {
  static FieldType type() { return {.type = ValueType::number}; }
  static void read(Reader& reader, const Node& node, const Field& field, double& out) { reader.number(node, field, out); }
  static Node write(double value) { return Node::scalar(number_text(value)); }
};

template <>
struct Codec<std::string> {
  static FieldType type() { return {.type = ValueType::string}; }
  static void read(Reader& reader, const Node& node, const Field& field, std::string& out) {
    reader.string(node, field, out);
  }
  static Node write(const std::string& value) { return Node::scalar(value, true); }
};

template <>
struct Codec<std::filesystem::path> {
  static FieldType type() { return {.type = ValueType::path}; }
  static void read(Reader& reader, const Node& node, const Field& field, std::filesystem::path& out) {
    reader.path(node, field, out);
  }
  static Node write(const std::filesystem::path& value) { return Node::scalar(value.string(), true); }
};

template <NamedEnum E>
struct Codec<E> {
  static std::vector<std::string> names() {
    const auto all = enum_names(E{});
    return {all.begin(), all.end()};
  }
  static FieldType type() { return {.type = ValueType::choice, .choices = names()}; }
  static void read(Reader& reader, const Node& node, const Field& field, E& out) {
    std::size_t index = 0;
    if (reader.choice(node, field, names(), index)) out = static_cast<E>(index);
  }
  static Node write(E value) { return Node::scalar(names().at(static_cast<std::size_t>(value))); }
};

template <class T>
struct Codec<Auto<T>> {
  static FieldType type() {
    FieldType type = Codec<T>::type();
    type.accepts_auto = true;
    return type;
  }
  static void read(Reader& reader, const Node& node, const Field& field, Auto<T>& out) {
    out.value.reset();
    if (Reader::is_auto(node)) return;
    T value{};
    Codec<T>::read(reader, node, field, value);
    out.value = std::move(value);
  }
  static Node write(const Auto<T>& value) { return value.value ? Codec<T>::write(*value.value) : Node::scalar("auto"); }
};

template <class T>
struct Codec<std::optional<T>> {
  static FieldType type() {
    FieldType type = Codec<T>::type();
    type.nullable = true;
    return type;
  }
  static void read(Reader& reader, const Node& node, const Field& field, std::optional<T>& out) {
    out.reset();
    if (node.is_null()) return;
    T value{};
    Codec<T>::read(reader, node, field, value);
    out = std::move(value);
  }
  static Node write(const std::optional<T>& value) { return value ? Codec<T>::write(*value) : Node{}; }
};

template <class T>
FieldType list_of(std::optional<std::size_t> length) {
  return {.type = ValueType::list, .item = std::make_shared<const FieldType>(Codec<T>::type()), .length = length};
}

template <class T>
struct Codec<std::vector<T>> {
  static FieldType type() { return list_of<T>(std::nullopt); }
  static void read(Reader& reader, const Node& node, const Field& field, std::vector<T>& out) {
    if (!reader.expect_list(node, field, 0)) return;
    out.clear();
    for (const Node& item : node.items) {
      T value{};
      Codec<T>::read(reader, item, field, value);
      out.push_back(std::move(value));
    }
  }
  static Node write(const std::vector<T>& values) {
    Node list = Node::list();
    for (const T& value : values) list.items.push_back(Codec<T>::write(value));
    return list;
  }
};

template <class T, std::size_t N>
struct Codec<std::array<T, N>> {
  static FieldType type() { return list_of<T>(N); }
  static void read(Reader& reader, const Node& node, const Field& field, std::array<T, N>& out) {
    if (!reader.expect_list(node, field, N)) return;
    for (std::size_t i = 0; i < N; ++i) Codec<T>::read(reader, node.items[i], field, out[i]);
  }
  static Node write(const std::array<T, N>& values) {
    Node list = Node::list();
    for (const T& value : values) list.items.push_back(Codec<T>::write(value));
    return list;
  }
};

template <class T>
struct Codec<std::map<std::string, T>> {
  static FieldType type() {
    return {.type = ValueType::map, .item = std::make_shared<const FieldType>(Codec<T>::type())};
  }
  static void read(Reader& reader, const Node& node, const Field& field, std::map<std::string, T>& out) {
    if (!reader.expect_map(node, field)) return;
    out.clear();
    for (const Entry& entry : node.entries) {
      if (!entry.value.is_null()) Codec<T>::read(reader, entry.value, field, out[entry.key]);
    }
  }
  static Node write(const std::map<std::string, T>& values) {
    Node map = Node::map();
    for (const auto& [key, value] : values) map.entries.push_back({key, {}, Codec<T>::write(value)});
    return map;
  }
};

template <Described Options>
struct Codec<Options> {
  static const std::shared_ptr<const Schema>& schema() {
    static const auto shared = std::make_shared<const Schema>(schema_of<Options>());
    return shared;
  }
  static FieldType type() { return {.type = ValueType::object, .object = schema()}; }
  static void read(Reader& reader, const Node& node, const Field& field, Options& out) {
    reader.object(node, *schema(), "'" + field.key + "'", &out);
  }
  static Node write(const Options& value) { return write_options(*schema(), &value); }
};

/// Bounds and remarks of the field just described.
class FieldBuilder {
 public:
  explicit FieldBuilder(Field& field) : field_(field) {}
  FieldBuilder& above(double value) { return set(field_.minimum, value, false); }
  FieldBuilder& at_least(double value) { return set(field_.minimum, value, true); }
  FieldBuilder& below(double value) { return set(field_.maximum, value, false); }
  FieldBuilder& at_most(double value) { return set(field_.maximum, value, true); }
  FieldBuilder& required() { field_.required = true; return *this; }
  FieldBuilder& not_empty() { field_.not_empty = true; return *this; }
  FieldBuilder& allows_non_finite() { field_.allows_non_finite = true; return *this; }
  FieldBuilder& example(std::string yaml) { field_.example = std::move(yaml); return *this; }

 private:
  FieldBuilder& set(std::optional<Bound>& bound, double value, bool inclusive) {
    bound = Bound{value, inclusive};
    return *this;
  }
  Field& field_;
};

/// Collects the fields of one options struct. The builder returned by `field` is used at once, in the same statement.
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

  /// A field that holds one stage of `kind`, e.g. `optimizer: {type: adam}` or the short form `optimizer: adam`.
  FieldBuilder stage(std::string key, Stage Options::*member, const std::string& kind, std::string help) {
    Field& field = append(std::move(key), std::move(help), {.type = ValueType::stage, .stage_kind = kind});
    field.read = [member, kind](Reader& reader, const Node& node, const Field& self, void* options) {
      reader.stage(node, self, kind, static_cast<Options*>(options)->*member);
    };
    field.write = [member](const void* options) { return write_stage(static_cast<const Options*>(options)->*member); };
    return FieldBuilder(field);
  }

  /// A stage whose `type` and options stand beside the fields of this struct, in the same map.
  void inline_stage(Stage Options::*member, const std::string& kind) {
    Field field;
    field.key = kind;
    field.type = {.type = ValueType::stage, .stage_kind = kind};
    field.read = [member, kind](Reader& reader, const Node& node, const Field& self, void* options) {
      reader.stage(node, self, kind, static_cast<Options*>(options)->*member);
    };
    field.write = [member](const void* options) { return write_stage(static_cast<const Options*>(options)->*member); };
    schema_.inline_stage = std::make_shared<const Field>(std::move(field));
  }

  FieldBuilder stages(std::string key, std::vector<Stage> Options::*member, const std::string& kind, std::string help) {
    FieldType item{.type = ValueType::stage, .stage_kind = kind};
    Field& field = append(std::move(key), std::move(help),
                          {.type = ValueType::list, .item = std::make_shared<const FieldType>(std::move(item))});
    field.read = [member, kind](Reader& reader, const Node& node, const Field& self, void* options) {
      if (!reader.expect_list(node, self, 0)) return;
      std::vector<Stage>& list = static_cast<Options*>(options)->*member;
      list.clear();
      for (const Node& one : node.items) reader.stage(one, self, kind, list.emplace_back());
    };
    field.write = [member](const void* options) {
      Node list = Node::list();
      for (const Stage& one : static_cast<const Options*>(options)->*member) list.items.push_back(write_stage(one));
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
