#include "checkpoint/container.hpp"

#include "base/crc32c.hpp"
#include "base/error.hpp"
#include "base/files.hpp"
#include "checkpoint/container_format.hpp"

#include <array>
#include <bit>
#include <utility>

namespace trainctl::container {
namespace {

static_assert(std::endian::native == std::endian::little, "entries are written as they lie");

struct Head {
  std::string text;  // the JSON
  std::uint64_t file_bytes = 0;
};

/// Its length does not depend on the checksums.
Head head_of(std::span<const Entry> entries, const Json& meta,
             std::span<const std::uint32_t> checksums) {
  Json list = Json::array();
  std::uint64_t end = 0;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const std::uint64_t offset = aligned(end);
    Json map = Json::object();
    map["name"] = entries[i].name;
    map["dtype"] = entries[i].dtype;
    map["shape"] = entries[i].shape;
    map["offset"] = offset;
    map["length"] = entries[i].bytes.size();
    map["crc32c"] = fmt::format("{:08x}", checksums[i]);
    list.push_back(std::move(map));
    end = offset + entries[i].bytes.size();
  }
  Json header = Json::object();
  header["meta"] = meta;
  header["entries"] = std::move(list);
  std::string text = to_line(header);
  const std::uint64_t begin =
      entries.empty() ? kPrefixBytes + text.size() : data_begin(text.size());
  return {std::move(text), begin + end};
}

/// What would be refused or come back changed is better told now than when it is needed.
void check_readable(const Head& head, std::span<const Entry> entries, const Json& meta) {
  ENSURE(checkpoint, head.text.size() <= kMaxHeader, "the header takes {} bytes; {} are the most",
         head.text.size(), kMaxHeader);
  const Header back = read_header(head.text, head.file_bytes);
  for (std::size_t i = 0; i < entries.size(); ++i) {
    ENSURE(checkpoint, back.entries[i].entry.name == entries[i].name, "{} is not valid UTF-8",
           shown(entries[i].name));
  }
  ENSURE(checkpoint, back.meta == meta,
         "its meta holds a number that is not finite, or text that is not UTF-8");
}

std::string_view text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace

void write_to(int fd, std::span<const Entry> entries, const Json& meta, const std::string& label) {
  static constexpr std::array<char, kAlignment> kZeros{};
  std::vector<std::uint32_t> checksums;
  for (const Entry& entry : entries) checksums.push_back(crc32c(entry.bytes));
  const Head head = head_of(entries, meta, checksums);
  in_context("cannot write " + shown(label), [&] { check_readable(head, entries, meta); });

  Prefix prefix{kVersion, 0, head.file_bytes, head.text.size()};
  prefix.checksum = checksum_of(prefix, head.text);
  const std::string start = pack(prefix);
  std::vector<std::string_view> pieces{start, head.text};
  std::uint64_t end = start.size() + head.text.size();
  for (const Entry& entry : entries) {
    pieces.emplace_back(kZeros.data(), aligned(end) - end);
    pieces.push_back(text_of(entry.bytes));
    end = aligned(end) + entry.bytes.size();
  }
  write_gathered(fd, pieces, label);
}

void write(const std::filesystem::path& path, std::span<const Entry> entries, const Json& meta) {
  write_atomically(path, [&](int fd) { write_to(fd, entries, meta, path.string()); });
}

std::uint64_t file_bytes(std::span<const Entry> entries, const Json& meta) {
  return head_of(entries, meta, std::vector<std::uint32_t>(entries.size())).file_bytes;
}

}  // namespace trainctl::container
