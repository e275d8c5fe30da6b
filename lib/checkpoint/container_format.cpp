#include "checkpoint/container_format.hpp"

#include "base/error.hpp"
#include "base/hash.hpp"
#include "base/numbers.hpp"
#include "base/safetensors.hpp"
#include "base/strings.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <limits>
#include <numeric>
#include <set>
#include <utility>

namespace trainctl::container {
namespace {

constexpr std::string_view kMagic = "TCTLCKPT";
constexpr std::size_t kShown = 200;

std::string grouped(std::uint64_t value) {
  constexpr std::uint64_t kMost = std::numeric_limits<long long>::max();
  return with_thousands(static_cast<long long>(std::min(value, kMost)));
}

constexpr std::size_t kMostNested = 64;
constexpr std::size_t kMostValues = 1'000'000;  // each takes up to 48 bytes, 2 of them in the file

/// Builds a JSON value from parser events. Unlike the library's builder, it rejects deep nesting,
/// duplicate names and very many values, and takes linear time for a map of many names.
class Document final : public nlohmann::json_sax<Json> {
 public:
  [[nodiscard]] Json take() { return std::move(root_); }

  bool null() override { return add(nullptr); }
  bool boolean(bool value) override { return add(value); }
  bool number_integer(std::int64_t value) override { return add(value); }
  bool number_unsigned(std::uint64_t value) override { return add(value); }
  bool number_float(double value, const std::string& /*text*/) override { return add(value); }
  bool string(std::string& value) override { return add(std::move(value)); }
  bool binary(Json::binary_t& /*value*/) override { return false; }
  bool start_object(std::size_t /*size*/) override { return open(Json::object()); }
  bool end_object() override { return close(); }
  bool start_array(std::size_t /*size*/) override { return open(Json::array()); }
  bool end_array() override { return close(); }
  bool key(std::string& name) override {
    ENSURE(checkpoint, open_.back().names.insert(name).second, "its header names {} twice",
           shown(name));
    name_ = std::move(name);
    return true;
  }
  bool parse_error(std::size_t at, const std::string& /*token*/,
                   const Json::exception& /*error*/) override {
    throw Error(ErrorKind::checkpoint, fmt::format("its header is not valid JSON at byte {}", at));
  }

 private:
  struct Open {
    Json* json;
    std::set<std::string> names;
  };

  Json& place(Json value) {
    ENSURE(checkpoint, ++values_ <= kMostValues, "its header holds more than {} values",
           kMostValues);
    if (open_.empty()) return root_ = std::move(value);
    Json& parent = *open_.back().json;
    if (parent.is_array()) {
      parent.push_back(std::move(value));
      return parent.back();
    }
    // The map's insert function would compare the name with all others.
    auto& members = parent.get_ref<Json::object_t&>();
    members.emplace_back(std::move(name_), std::move(value));
    return members.back().second;
  }
  bool add(Json value) {
    place(std::move(value));
    return true;
  }
  bool open(Json empty) {
    ENSURE(checkpoint, open_.size() < kMostNested, "its header is nested more than {} levels deep",
           kMostNested);
    open_.push_back({&place(std::move(empty)), {}});
    return true;
  }
  bool close() {
    open_.pop_back();
    return true;
  }

  Json root_;
  std::string name_;  // name of the next value
  std::vector<Open> open_;
  std::size_t values_ = 0;
};

void expect_keys(const Json& map, std::span<const char* const> keys) {
  ENSURE(checkpoint, map.is_object(), "it must be a JSON object");
  for (const auto& [key, value] : map.items()) {
    ENSURE(checkpoint, std::find(keys.begin(), keys.end(), key) != keys.end(),
           "its key {} is unknown in format {}", shown(key), kVersion);
  }
  for (const char* key : keys) ENSURE(checkpoint, map.contains(key), "'{}' is missing", key);
}

const std::string& text_of(const Json& map, const char* key) {
  ENSURE(checkpoint, map.at(key).is_string(), "its {} must be a string", key);
  return map.at(key).get_ref<const std::string&>();
}

std::uint64_t number_of(const Json& map, const char* key) {
  ENSURE(checkpoint, map.at(key).is_number_unsigned(), "its {} must be an integer", key);
  return map.at(key).get<std::uint64_t>();
}

std::vector<std::int64_t> shape_of(const Json& map) {
  constexpr std::uint64_t kMost = std::numeric_limits<std::int64_t>::max();
  const Json& list = map.at("shape");
  ENSURE(checkpoint, list.is_array(), "its shape must be a list");
  std::vector<std::int64_t> shape;
  for (const Json& extent : list) {
    ENSURE(checkpoint, extent.is_number_unsigned() && extent.get<std::uint64_t>() <= kMost,
           "a size in its shape must be an integer");
    shape.push_back(extent.get<std::int64_t>());
  }
  return shape;
}

std::uint32_t checksum_in(const Json& map) {
  const std::string& text = text_of(map, "crc32c");
  ENSURE(checkpoint,
         text.size() == 8 && text.find_first_not_of("0123456789abcdef") == std::string::npos,
         "its crc32c must be 8 hexadecimal digits");
  std::uint32_t value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value, 16);
  return value;
}

Listed parse_entry(const Json& map) {
  static constexpr std::array<const char*, 6> kKeys{"name",   "dtype",  "shape",
                                                    "offset", "length", "crc32c"};
  expect_keys(map, kKeys);
  Listed found;
  found.entry.name = text_of(map, "name");
  found.entry.dtype = text_of(map, "dtype");
  const std::size_t element = safetensors::element_bytes(found.entry.dtype);
  ENSURE(checkpoint, element > 0, "its dtype {} is unknown", shown(found.entry.dtype));
  found.entry.shape = shape_of(map);
  found.offset = number_of(map, "offset");
  found.length = number_of(map, "length");
  found.checksum = checksum_in(map);
  ENSURE(checkpoint, safetensors::byte_count(found.entry.shape, element) == found.length,
         "its length of {} bytes does not match its shape and dtype", found.length);
  return found;
}

/// Describes an entry by its name, if it has one.
std::string frame_of(const Json& map, std::size_t index) {
  const bool named = map.is_object() && map.contains("name") && map.at("name").is_string();
  return named ? shown(map.at("name").get_ref<const std::string&>())
               : fmt::format("entry {} of its header", index);
}

void check_place(const Listed& listed, const Listed* before, std::uint64_t data_bytes) {
  const std::uint64_t end = before == nullptr ? 0 : before->offset + before->length;
  ENSURE(checkpoint, listed.offset % kAlignment == 0, "its offset {} is not a multiple of {}",
         listed.offset, kAlignment);
  ENSURE(checkpoint, before == nullptr || listed.offset >= before->offset,
         "its offset {} is out of order", listed.offset);
  ENSURE(checkpoint, listed.offset >= end, "its offset {} overlaps the entry before it",
         listed.offset);
  ENSURE(checkpoint, listed.offset == aligned(end), "its offset {} leaves a gap, expected {}",
         listed.offset, aligned(end));
  ENSURE(checkpoint, listed.offset <= data_bytes && listed.length <= data_bytes - listed.offset,
         "its {} bytes at offset {} extend beyond the data of {} bytes", listed.length,
         listed.offset, data_bytes);
}

void check_layout(const std::vector<Listed>& entries, std::uint64_t begin, std::uint64_t bytes) {
  ENSURE(checkpoint, begin <= bytes, "the file ends at byte {}, before its data begins", bytes);
  std::uint64_t end = 0;
  const Listed* before = nullptr;
  for (const Listed& listed : entries) {
    in_context(shown(listed.entry.name), [&] { check_place(listed, before, bytes - begin); });
    end = listed.offset + listed.length;
    before = &listed;
  }
  ENSURE(checkpoint, begin + end == bytes, "{} bytes at the end of the file belong to no tensor",
         bytes - begin - end);
}

std::vector<std::uint32_t> sorted_by_name(const std::vector<Listed>& entries) {
  std::vector<std::uint32_t> order(entries.size());
  std::iota(order.begin(), order.end(), 0U);
  const auto name = [&](std::uint32_t i) -> const std::string& { return entries[i].entry.name; };
  std::sort(order.begin(), order.end(), [&](auto a, auto b) { return name(a) < name(b); });
  const auto twice = std::adjacent_find(order.begin(), order.end(),
                                        [&](auto a, auto b) { return name(a) == name(b); });
  ENSURE(checkpoint, twice == order.end(), "{} is listed twice", shown(name(*twice)));
  return order;
}

}  // namespace

std::string pack(const Prefix& prefix) {
  return std::string(kMagic) + little_endian(prefix.version, 4) +
         little_endian(prefix.checksum, 4) + little_endian(prefix.file_bytes, 8) +
         little_endian(prefix.header_bytes, 8);
}

Prefix read_prefix(std::span<const std::byte> head, std::uint64_t real_bytes) {
  ENSURE(checkpoint, head.size() >= kPrefixBytes,
         "the file is truncated, got {} of at least {} bytes", head.size(), kPrefixBytes);
  ENSURE(checkpoint, std::memcmp(head.data(), kMagic.data(), kMagic.size()) == 0,
         "the file is not a checkpoint of trainctl (it must begin with {})", kMagic);
  const auto number = [&](std::size_t at, std::size_t bytes) {
    return from_little_endian(as_text(head.subspan(at, bytes)));
  };
  const Prefix prefix{static_cast<std::uint32_t>(number(8, 4)),
                      static_cast<std::uint32_t>(number(12, 4)), number(16, 8), number(24, 8)};
  ENSURE(checkpoint, prefix.version <= kVersion,
         "the file was written by a newer trainctl (format {})", prefix.version);
  ENSURE(checkpoint, prefix.version == kVersion, "unknown format {}", prefix.version);
  ENSURE(checkpoint, real_bytes >= prefix.file_bytes, "the file is truncated, got {} of {} bytes",
         grouped(real_bytes), grouped(prefix.file_bytes));
  ENSURE(checkpoint, real_bytes <= prefix.file_bytes,
         "the file has {} bytes, but its header states {}", grouped(real_bytes),
         grouped(prefix.file_bytes));
  ENSURE(checkpoint, prefix.header_bytes <= kMaxHeader,
         "its header is damaged: it states a length of {} bytes, more than the limit of {} bytes",
         grouped(prefix.header_bytes), grouped(kMaxHeader));
  ENSURE(checkpoint, prefix.header_bytes <= real_bytes - kPrefixBytes,
         "its header is damaged: it states a length of {} bytes, but only {} follow",
         grouped(prefix.header_bytes), grouped(real_bytes - kPrefixBytes));
  return prefix;
}

std::uint32_t checksum_of(const Prefix& prefix, std::string_view header) {
  Prefix plain = prefix;
  plain.checksum = 0;
  const std::string first = pack(plain);
  return crc32c(std::as_bytes(std::span(header)), crc32c(std::as_bytes(std::span(first))));
}

void expect_sound(const Prefix& prefix, std::string_view header) {
  const std::uint32_t found = checksum_of(prefix, header);
  ENSURE(checkpoint, found == prefix.checksum,
         "its header has changed since it was written: the checksum is {:08x}, expected {:08x}",
         found, prefix.checksum);
}

void expect_zero(std::span<const std::byte> padding) {
  const bool is_zero =
      std::ranges::all_of(padding, [](std::byte byte) { return byte == std::byte{0}; });
  ENSURE(checkpoint, is_zero, "the padding bytes before it must be zero");
}

void expect_checksum(const Listed& listed, std::uint32_t found) {
  ENSURE(checkpoint, found == listed.checksum,
         "its bytes have changed since they were written: the checksum is {:08x}, expected {:08x}",
         found, listed.checksum);
}

std::string shown(std::string_view name) {
  return "'" + printable(name.substr(0, kShown)) + (name.size() > kShown ? "...'" : "'");
}

Header read_header(std::string_view text, std::uint64_t file_bytes) {
  static constexpr std::array<const char*, 2> kKeys{"meta", "entries"};
  Document document;
  ASSERT(Json::sax_parse(text, &document));
  Json root = document.take();
  in_context("its header", [&] { expect_keys(root, kKeys); });
  const Json& list = root.at("entries");
  ENSURE(checkpoint, list.is_array(), "the entries of its header must be a list");
  Header header;
  for (const Json& map : list) {
    const std::size_t index = header.entries.size();
    header.entries.push_back(in_context(frame_of(map, index), [&] { return parse_entry(map); }));
  }
  header.by_name = sorted_by_name(header.entries);
  const std::uint64_t begin =
      header.entries.empty() ? kPrefixBytes + text.size() : data_begin(text.size());
  check_layout(header.entries, begin, file_bytes);
  header.meta = std::move(root.at("meta"));
  return header;
}

}  // namespace trainctl::container
