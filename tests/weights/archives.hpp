#pragma once

#include <zlib.h>

#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <utility>
#include <vector>

// Builds ZIP archives and pickles, valid or invalid.

namespace trainctl::weights::testing {

using File = std::pair<std::string, std::string>;  // name, content

inline std::string number(std::uint64_t value, int bytes) {
  std::string text;
  for (int i = 0; i < bytes; ++i) text.push_back(static_cast<char>(value >> (8 * i) & 0xff));
  return text;
}

inline std::uint64_t crc_of(const std::string& text) {
  return ::crc32_z(0, reinterpret_cast<const Bytef*>(text.data()), text.size());
}

/// Returns an archive of uncompressed files like torch.save.
inline std::string zip_of(const std::vector<File>& files) {
  std::string out;
  std::string directory;
  for (const auto& [name, content] : files) {
    const std::string sums = number(crc_of(content), 4) + number(content.size(), 4) +
                             number(content.size(), 4) + number(name.size(), 2) + number(0, 2);
    directory += number(0x02014b50, 4) + number(20, 2) + number(20, 2) + number(0, 8) + sums +
                 std::string(10, '\0') + number(out.size(), 4) + name;
    out += number(0x04034b50, 4) + number(20, 2) + number(0, 8) + sums + name + content;
  }
  const std::string count = number(files.size(), 2);
  return out + directory + number(0x06054b50, 4) + number(0, 4) + count + count +
         number(directory.size(), 4) + number(out.size(), 4) + number(0, 2);
}

inline std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}

// Opcodes of a pickle.
inline std::string text(const std::string& value) { return "X" + number(value.size(), 4) + value; }
inline std::string integer(std::uint64_t value) { return "\x8a\x08" + number(value, 8); }
inline std::string global(const std::string& module, const std::string& name) {
  return "c" + module + "\n" + name + "\n";
}
inline std::string pickled(const std::string& opcodes) {
  return std::string("\x80\x02", 2) + opcodes + ".";
}
inline std::string storage(const std::string& key, std::uint64_t elements,
                           const std::string& type = "FloatStorage") {
  return "(" + text("storage") + global("torch", type) + text(key) + text("cpu") +
         integer(elements) + "tQ";
}
inline std::string tuple(const std::vector<std::uint64_t>& values) {
  std::string items = "(";
  for (const std::uint64_t value : values) items += integer(value);
  return items + "t";
}
inline std::string tensor(const std::string& from, std::uint64_t offset,
                          const std::vector<std::uint64_t>& shape,
                          const std::vector<std::uint64_t>& strides) {
  return global("torch._utils", "_rebuild_tensor_v2") + "(" + from + integer(offset) +
         tuple(shape) + tuple(strides) + "\x89}tR";
}
inline std::string dict(const std::vector<File>& items) {
  std::string all = "}(";
  for (const auto& [key, value] : items) all += text(key) + value;
  return all + "u";
}

/// Returns a torch.save file in which storage 0 has four floats.
inline std::string torch_of(const std::string& opcodes) {
  return zip_of({{"archive/data.pkl", pickled(opcodes)},
                 {"archive/byteorder", "little"},
                 {"archive/data/0", std::string(16, '\x01')}});
}

}  // namespace trainctl::weights::testing
