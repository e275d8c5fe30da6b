#include "base/crc32c.hpp"
#include "base/error.hpp"
#include "base/strings.hpp"
#include "checkpoint/container.hpp"
#include "checkpoint/container_format.hpp"
#include "checkpoint/container_source.hpp"

#include <algorithm>
#include <array>
#include <new>
#include <utility>

namespace trainctl::container {
namespace {

constexpr std::align_val_t kPage{4096};

/// An entry whose bytes lie at `at`, behind what ends at `end`.
void take_bytes(Listed& listed, std::span<const std::byte> file, std::uint64_t at,
                std::uint64_t end) {
  expect_zero(file.subspan(end, at - end));
  listed.entry.bytes = file.subspan(at, listed.length);
  expect_checksum(listed, crc32c(listed.entry.bytes));
}

Contents check(std::span<const std::byte> file) {
  const Prefix prefix = read_prefix(file, file.size());
  const auto header = file.subspan(kPrefixBytes, prefix.header_bytes);
  const std::string_view text(reinterpret_cast<const char*>(header.data()), header.size());
  expect_sound(prefix, text);
  Header listed = read_header(text, file.size());
  Contents contents{{}, std::move(listed.by_name), std::move(listed.meta), prefix.checksum};
  contents.entries.reserve(listed.entries.size());
  std::uint64_t end = kPrefixBytes + header.size();
  for (Listed& entry : listed.entries) {
    const std::uint64_t at = data_begin(header.size()) + entry.offset;
    in_context(shown(entry.entry.name), [&] { take_bytes(entry, file, at, end); });
    end = at + entry.length;
    contents.entries.push_back(std::move(entry.entry));
  }
  return contents;
}

}  // namespace

const Entry* Contents::find(std::string_view name) const {
  const auto at = std::lower_bound(
      by_name.begin(), by_name.end(), name,
      [&](std::uint32_t i, std::string_view wanted) { return entries[i].name < wanted; });
  return at != by_name.end() && entries[*at].name == name ? &entries[*at] : nullptr;
}

Contents parse(std::span<const std::byte> file, const std::string& label) {
  return in_context(label, [&] { return check(file); });
}

void File::Free::operator()(std::byte* bytes) const { ::operator delete[](bytes, kPage); }

File::Buffer File::allocate(std::size_t size) {
  void* memory = ::operator new[](size, kPage, std::nothrow);
  ENSURE(resource, memory != nullptr, "there is no memory for its {} bytes", size);
  return Buffer(static_cast<std::byte*>(memory));
}

std::uint32_t stored_checksum(const std::filesystem::path& path) {
  return in_context(printable(path.string()), [&] {
    const Source source(path);
    std::array<std::byte, kPrefixBytes> head{};
    const auto start = std::span(head).first(std::min(source.size(), head.size()));
    source.read(0, start);
    return read_prefix(start, source.size()).checksum;
  });
}

// Read and not mapped: touching a mapped file that became shorter would end the process, and what
// was checked could change.
File::File(const std::filesystem::path& path) {
  const std::string label = printable(path.string());
  std::size_t size = 0;
  in_context(label, [&] {
    const Source source(path);
    size = source.size();
    std::array<std::byte, kPrefixBytes> head{};
    const auto start = std::span(head).first(std::min(size, head.size()));
    source.read(0, start);
    (void)read_prefix(start, size);
    bytes_ = allocate(size);
    source.read(0, {bytes_.get(), size});
  });
  contents_ = parse({bytes_.get(), size}, label);
}

}  // namespace trainctl::container
