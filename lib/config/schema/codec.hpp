#pragma once

#include "config/schema/reader.hpp"
#include "config/schema/schema.hpp"

// How each C++ type of an option is described, read and written; describe.hpp combines them.

namespace trainctl::config {

/// The word `auto`, or a value.
template <class T>
struct Auto {
  std::optional<T> value;
  [[nodiscard]] bool is_auto() const { return !value.has_value(); }
  [[nodiscard]] T value_or(T fallback) const { return value.value_or(fallback); }
  bool operator==(const Auto&) const = default;
};

/// An enum with names: enumerators count from 0, and the names are in the same order.
///   enum class Mode { min, max };
///   constexpr std::array<const char*, 2> enum_names(Mode) { return {"min", "max"}; }
template <class E>
concept NamedEnum = std::is_enum_v<E> && requires(E e) {
  enum_names(e);
};

template <class Options>
class Describe;

template <class Options>
concept Described = requires(Describe<Options>& d) {
  Options::describe(d);
};

/// Describes, reads and writes one C++ type. `read` reports problems through the Reader.
template <class T>
struct Codec;

/// The common part of codecs whose values are read by `kRead`, a member of Reader.
template <class T, ValueType kType, bool (Reader::*kRead)(const Node&, const Field&, T&)>
struct ScalarCodec {
  static FieldType type() { return {.type = kType}; }
  static void read(Reader& reader, const Node& node, const Field& field, T& out) {
    (reader.*kRead)(node, field, out);
  }
};

template <>
struct Codec<bool> : ScalarCodec<bool, ValueType::boolean, &Reader::boolean> {
  static Node write(bool value) { return Node::scalar(value ? "true" : "false"); }
};

template <class T>
requires std::is_integral_v<T>
struct Codec<T> {
  static FieldType type() { return {.type = ValueType::integer}; }
  static void read(Reader& reader, const Node& node, const Field& field, T& out) {
    constexpr bool kWide = sizeof(T) == 8 && std::is_unsigned_v<T>;
    constexpr auto kLow = static_cast<std::int64_t>(std::numeric_limits<T>::min());
    constexpr auto kHigh = kWide ? std::numeric_limits<std::int64_t>::max()
                                 : static_cast<std::int64_t>(std::numeric_limits<T>::max());
    std::int64_t value = 0;
    if (reader.integer(node, field, kLow, kHigh, value)) out = static_cast<T>(value);
  }
  static Node write(T value) { return Node::scalar(std::to_string(value)); }
};

/// Returns the shortest text that is read back as the same double.
std::string number_text(double value);

template <>
struct Codec<double> : ScalarCodec<double, ValueType::number, &Reader::number> {
  static Node write(double value) { return Node::scalar(number_text(value)); }
};

template <>
struct Codec<std::string> : ScalarCodec<std::string, ValueType::string, &Reader::string> {
  static Node write(const std::string& value) { return Node::scalar(value, true); }
};

template <>
struct Codec<std::filesystem::path>
    : ScalarCodec<std::filesystem::path, ValueType::path, &Reader::path> {
  static Node write(const std::filesystem::path& value) {
    return Node::scalar(value.string(), true);
  }
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
  static Node write(const Auto<T>& value) {
    return value.value ? Codec<T>::write(*value.value) : Node::scalar("auto");
  }
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
  static Node write(const std::optional<T>& value) {
    return value ? Codec<T>::write(*value) : Node{};
  }
};

template <class T>
FieldType list_of(std::optional<std::size_t> length) {
  return {.type = ValueType::list,
          .item = std::make_shared<const FieldType>(Codec<T>::type()),
          .length = length};
}

Node write_list(const auto& values) {
  Node list = Node::list();
  for (const auto& value : values)
    list.items.push_back(Codec<std::remove_cvref_t<decltype(value)>>::write(value));
  return list;
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
  static Node write(const std::vector<T>& values) { return write_list(values); }
};

/// One value or a list of values: `size: 28` or `size: [28, 32]`.
template <class T>
struct OneOrMore {
  std::vector<T> values;
  bool operator==(const OneOrMore&) const = default;
};

template <class T>
struct Codec<OneOrMore<T>> {
  static FieldType type() {
    FieldType type = list_of<T>(std::nullopt);
    type.accepts_one = true;
    return type;
  }
  static void read(Reader& reader, const Node& node, const Field& field, OneOrMore<T>& out) {
    if (node.type != Node::Type::scalar)
      return Codec<std::vector<T>>::read(reader, node, field, out.values);
    T value{};
    Codec<T>::read(reader, node, field, value);
    out.values = {std::move(value)};
  }
  static Node write(const OneOrMore<T>& value) {
    return value.values.size() == 1 ? Codec<T>::write(value.values[0])
                                    : Codec<std::vector<T>>::write(value.values);
  }
};

template <class T, std::size_t N>
struct Codec<std::array<T, N>> {
  static FieldType type() { return list_of<T>(N); }
  static void read(Reader& reader, const Node& node, const Field& field, std::array<T, N>& out) {
    if (!reader.expect_list(node, field, N)) return;
    for (std::size_t i = 0; i < N; ++i) Codec<T>::read(reader, node.items[i], field, out[i]);
  }
  static Node write(const std::array<T, N>& values) { return write_list(values); }
};

template <class T>
struct Codec<std::map<std::string, T>> {
  static FieldType type() {
    return {.type = ValueType::map, .item = std::make_shared<const FieldType>(Codec<T>::type())};
  }
  static void read(Reader& reader, const Node& node, const Field& field,
                   std::map<std::string, T>& out) {
    if (!reader.expect_map(node, field)) return;
    out.clear();
    for (const Entry& entry : node.entries) {
      if (!entry.value.is_null()) Codec<T>::read(reader, entry.value, field, out[entry.key]);
    }
  }
  static Node write(const std::map<std::string, T>& values) {
    Node map = Node::map();
    for (const auto& [key, value] : values)
      map.entries.push_back({key, {}, Codec<T>::write(value)});
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

}  // namespace trainctl::config
