#pragma once

#include <cstdint>
#include <cstdio>
#include <string>

namespace trainctl::data::testing {

inline void seal(std::string& header) {
  header.replace(148, 8, "        ");
  unsigned sum = 0;
  for (const char c : header) sum += static_cast<unsigned char>(c);
  char text[8];
  std::snprintf(text, sizeof text, "%06o", sum);
  header.replace(148, 7, std::string(text, 7));
}

/// Returns a ustar header of a member of that type.
inline std::string tar_header(const std::string& name, std::uint64_t size, char type = '0') {
  std::string header(512, '\0');
  header.replace(0, name.size(), name);
  header.replace(100, 7, "0000644");
  char text[13];
  std::snprintf(text, sizeof text, "%011llo", static_cast<unsigned long long>(size));
  header.replace(124, 11, text);
  header[156] = type;
  header.replace(257, 8,
                 std::string("ustar\0"
                             "00",
                             8));
  seal(header);
  return header;
}

/// Returns header, content and padding.
inline std::string tar_member(const std::string& name, const std::string& content,
                              char type = '0') {
  return tar_header(name, content.size(), type) + content +
         std::string((512 - content.size() % 512) % 512, '\0');
}

inline std::string tar_end() { return std::string(1024, '\0'); }

inline std::string pax_record(const std::string& key, const std::string& value) {
  std::size_t length = key.size() + value.size() + 3;
  length += std::to_string(length + std::to_string(length).size()).size();
  return std::to_string(length) + " " + key + "=" + value + "\n";
}

}  // namespace trainctl::data::testing
