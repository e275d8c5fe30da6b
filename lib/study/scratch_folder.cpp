#include "study/scratch_folder.hpp"

#include "base/error.hpp"
#include "base/strings.hpp"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string>
#include <system_error>

namespace trainctl::study {

ScratchFolder::ScratchFolder(const fs::path& parent) {
  std::string name = (fs::absolute(parent) / "trainctl-XXXXXX").string();
  const char* const made = ::mkdtemp(name.data());
  ENSURE(resource, made != nullptr, "cannot make a folder in {}: {}", printable(parent.string()),
         std::strerror(errno));
  path_ = made;
}

ScratchFolder::~ScratchFolder() {
  std::error_code ignored;
  if (!kept_) fs::remove_all(path_, ignored);
}

fs::path temporary_folder() {
  std::error_code failure;
  fs::path folder = fs::temp_directory_path(failure);
  const char* const named = std::getenv("TMPDIR");
  ENSURE(resource, !failure, "there is no folder for temporary files{}: {}; set TMPDIR to one",
         named == nullptr ? "" : fmt::format(" (TMPDIR is '{}')", printable(named)),
         failure.message());
  return folder;
}

}  // namespace trainctl::study
