#include "weights/import.hpp"

#include "base/error.hpp"
#include "base/files.hpp"
#include "base/hash.hpp"
#include "base/json.hpp"
#include "base/safetensors.hpp"
#include "base/strings.hpp"
#include "launch/process/isolated_process.hpp"
#include "weights/torch_file.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace trainctl::weights {
namespace {

constexpr std::string_view kZip = "PK\x03\x04";
constexpr std::string_view kOldTorch =
    "\x80\x02\x8a\x0a";  // a pickle that starts with a LONG1 integer
constexpr std::uint64_t kGiB = std::uint64_t{1} << 30;

/// Adds the name of a third-party file to every error of `body`.
template <class Body>
decltype(auto) reading(const fs::path& file, Body&& body) {
  return in_context(printable(file.string()), std::forward<Body>(body));
}

/// Calls `take` with at most `most` bytes, part by part.
void read_parts(const fs::path& file, std::uint64_t most,
                const std::function<void(std::string_view)>& take) {
  const Fd fd(::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  ENSURE(checkpoint, fd.valid(), "cannot open it: {}", std::strerror(errno));
  std::vector<char> buffer(std::min<std::uint64_t>(most, 1 << 20));
  while (most > 0) {
    const ssize_t count =
        ::read(fd.get(), buffer.data(), std::min<std::uint64_t>(most, buffer.size()));
    if (count < 0 && errno == EINTR) continue;
    ENSURE(checkpoint, count >= 0, "cannot read it: {}", std::strerror(errno));
    if (count == 0) return;
    take({buffer.data(), static_cast<std::size_t>(count)});
    most -= static_cast<std::uint64_t>(count);
  }
}

/// Returns limits that allow for an imported file, which contains all tensors (those with a shared
/// storage several times) and a header.
launch::Sandbox sandbox_for(std::uint64_t file_bytes, std::vector<int> descriptors) {
  const std::uint64_t most = 9 * file_bytes + kGiB;
  return {std::move(descriptors), most, most, 60 + file_bytes / 10'000'000};
}

/// Returns the text that `body` makes of the file in a sandboxed process.
std::string in_sandbox(const FileMapping& mapping, std::vector<int> descriptors,
                       const std::function<std::string()>& body) {
  try {
    return launch::run_isolated(body, {"the process that read it",
                                       sandbox_for(mapping.bytes().size(), std::move(descriptors))})
        .text;
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::unexpected) throw;
    throw Error(ErrorKind::checkpoint, error.message());
  }
}

/// Returns the new names of the tensors; empty: omitted.
std::vector<std::string> selected(const std::vector<std::string>& names, const Renaming& renaming,
                                  std::vector<std::string>& notes) {
  return renaming.is_empty() ? names : renamed(names, renaming, notes);
}

std::vector<std::string> names_of(const auto& tensors) {
  std::vector<std::string> names;
  for (const auto& tensor : tensors) names.emplace_back(tensor.name);
  return names;
}

std::vector<Entry> renamed_entries(const auto& tensors, const Renaming& renaming) {
  std::vector<std::string> notes;
  const std::vector<std::string> names = selected(names_of(tensors), renaming, notes);
  std::vector<Entry> entries;
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (!names[i].empty())
      entries.push_back({names[i], std::string(tensors[i].dtype), tensors[i].shape});
  }
  return entries;
}

/// Serializes entries to send them out of the sandbox.
std::string dump_entries(const std::vector<Entry>& entries) {
  Json list = Json::array();
  for (const Entry& entry : entries) list.push_back({entry.name, entry.dtype, entry.shape});
  return to_line(list);
}

std::vector<Entry> parse_entries(const std::string& text) {
  std::vector<Entry> entries;
  try {
    for (const Json& one : parse_json(text)) {
      entries.push_back({one.at(0).get<std::string>(), one.at(1).get<std::string>(),
                         one.at(2).get<std::vector<std::int64_t>>()});
    }
  } catch (const Json::exception&) {  // a malicious file controls the process in the sandbox
    throw Error(ErrorKind::checkpoint,
                "the process that read the file returned no list of tensors");
  }
  return entries;
}

void write_imported(int fd, std::span<const safetensors::View> views,
                    const std::vector<std::string>& notes, const fs::path& source) {
  safetensors::write_to(
      fd, views,
      {{"format", "pt"}, {"source", source.filename().string()}, {kNotesKey, join(notes, "\n")}},
      "the imported weights");
}

void write_selected(TorchFile file, int fd, const fs::path& source, const Renaming& renaming) {
  const std::vector<std::string> names = selected(names_of(file.tensors), renaming, file.notes);
  std::vector<std::vector<std::byte>> copies(file.tensors.size());
  std::vector<safetensors::View> views;
  for (std::size_t i = 0; i < file.tensors.size(); ++i) {
    const TorchTensor& tensor = file.tensors[i];
    if (names[i].empty()) continue;
    views.push_back(
        {names[i], std::string(tensor.dtype), tensor.shape, row_major(tensor, copies[i])});
  }
  write_imported(fd, views, file.notes, source);
}

void write_selected(const safetensors::File& file, int fd, const fs::path& source,
                    const Renaming& renaming) {
  std::vector<std::string> notes;
  const std::vector<std::string> names = selected(names_of(file.tensors()), renaming, notes);
  std::vector<safetensors::View> views;
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (names[i].empty()) continue;
    views.push_back(file.tensors()[i]);
    views.back().name = names[i];
  }
  write_imported(fd, views, notes, source);
}

void expect_no_section(const fs::path& file, const Selection& selection) {
  ENSURE(config, selection.section.empty(),
         "{} is a safetensors file, which has no sections, but section '{}' is requested\nhint: "
         "remove weights.section or --section",
         printable(file.string()), printable(selection.section));
}

}  // namespace

Format format_of(const fs::path& file) {
  return reading(file, [&] {
    std::string head;
    read_parts(file, kZip.size(), [&](std::string_view part) { head += part; });
    if (head == kZip) return Format::torch;
    ENSURE(checkpoint, head != kOldTorch,
           "it has the format of torch.save before PyTorch 1.6\nhint: convert it in Python: "
           "torch.save(torch.load(\"old.pth\", map_location=\"cpu\", weights_only=True), "
           "\"new.pth\")");
    return Format::safetensors;
  });
}

std::vector<Entry> entries_of(const fs::path& file, const Selection& selection) {
  if (format_of(file) == Format::safetensors) {
    expect_no_section(file, selection);
    const safetensors::File header(file);
    return reading(file, [&] { return renamed_entries(header.tensors(), selection.renaming); });
  }
  return reading(file, [&] {
    const FileMapping mapping(file, ErrorKind::checkpoint);
    return parse_entries(in_sandbox(mapping, {}, [&] {
      const TorchFile found =
          read_torch_file(mapping.bytes(), Verify::structure, selection.section);
      return dump_entries(renamed_entries(found.tensors, selection.renaming));
    }));
  });
}

void import_weights(const fs::path& file, const fs::path& to, const Selection& selection) {
  if (format_of(file) == Format::safetensors) {
    expect_no_section(file, selection);
    const safetensors::File source(file);
    reading(file, [&] {
      write_atomically(to, [&](int fd) { write_selected(source, fd, file, selection.renaming); });
    });
    return;
  }
  reading(file, [&] {
    const FileMapping mapping(file, ErrorKind::checkpoint);
    write_atomically(to, [&](int fd) {
      in_sandbox(mapping, {fd}, [&] {
        write_selected(read_torch_file(mapping.bytes(), Verify::checksums, selection.section), fd,
                       file, selection.renaming);
        return std::string();
      });
    });
  });
}

void check_sha256(const fs::path& file, const std::string& expected) {
  reading(file, [&] {
    Sha256Stream stream;
    read_parts(file, ~std::uint64_t{0}, [&](std::string_view part) { stream.add(part); });
    const std::string found = to_hex(stream.finish());
    ENSURE(checkpoint, found == expected,
           "its SHA-256 is {}, expected {}: it is another file, or damaged", found, expected);
  });
}

}  // namespace trainctl::weights
