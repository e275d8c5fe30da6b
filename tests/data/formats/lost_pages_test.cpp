#include "base/json.hpp"
#include "data/core/parallel.hpp"
#include "data/formats/file_reader.hpp"
#include "data/formats/mapped_file.hpp"
#include "data/sources.hpp"
#include "support/catch.hpp"

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <functional>
#include <thread>

using namespace trainctl;
using namespace trainctl::data;
using namespace trainctl::data::testing;

namespace {

struct End {
  int status = 0;
  std::string err;
};

/// Runs `body` in a child process, which exits silently unless the body ends it.
End in_child(const std::filesystem::path& err, const std::function<void()>& body) {
  const pid_t child = ::fork();
  if (child == 0) {
    if (std::freopen(err.c_str(), "w", stderr) == nullptr) ::_exit(99);
    body();
    ::_exit(0);
  }
  End end;
  ::waitpid(child, &end.status, 0);
  end.err = get_text(err);
  return end;
}

std::byte touch(const MappedFile& file, std::size_t at) {
  const volatile std::byte* bytes = file.bytes().data();
  return bytes[at];
}

}  // namespace

TEST_CASE("MappedFile: a file truncated while it is mapped ends the process with a data error") {
  const TempFolder folder;
  const auto path = folder / "pack \"of\" images";
  put_text(path, std::string(20'000, 'x'));
  const MappedFile other(path);
  const End end = in_child(folder / "err", [&] {
    const MappedFile file(path);
    std::filesystem::resize_file(path, 5000);
    (void)touch(file, 4999);
    std::thread([&] {
      prepare_thread("trainctl-test", Priority::normal);
      (void)touch(file, 12'345);
    }).join();
  });
  CHECK(WIFEXITED(end.status));
  CHECK(WEXITSTATUS(end.status) == 9);
  CHECK(end.err == "error: " + path.string() +
                       " ends at byte 5000; byte 12345 was expected: the file was truncated while "
                       "it was read\n");
}

TEST_CASE("report_lost_pages: the error for a truncated file is written as JSON") {
  const TempFolder folder;
  const auto path = folder / "pack \"of\" images";
  put_text(path, std::string(10'000, 'x'));
  const End end = in_child(folder / "err", [&] {
    report_lost_pages({folder / "rank_0.error.json", R"({"kind":9,"message":")", "\"}\n"});
    const MappedFile file(path);
    std::filesystem::resize_file(path, 0);
    (void)touch(file, 0);
  });
  CHECK(WEXITSTATUS(end.status) == 9);
  const Json report = Json::parse(get_text(folder / "rank_0.error.json"));
  CHECK(report["kind"] == 9);
  CHECK_THAT(report["message"].get<std::string>(),
             StartsWith(path.string() + " ends at byte 0; byte 0 was expected"));
}

TEST_CASE("MappedFile: SIGBUS outside of its mappings keeps the default action") {
  const TempFolder folder;
  put_text(folder / "sound", std::string(100, 'x'));
  const MappedFile sound(folder / "sound");
  const End sent = in_child(folder / "err", [] { (void)::raise(SIGBUS); });
  CHECK(WIFSIGNALED(sent.status));
  CHECK(WTERMSIG(sent.status) == SIGBUS);
  put_text(folder / "gone", std::string(10'000, 'x'));
  const End touched = in_child(folder / "err", [&] {
    const MappedFile known(folder / "gone");
    const FileReader unknown(folder / "gone");
    void* mapping = ::mmap(nullptr, 10'000, PROT_READ, MAP_SHARED, unknown.fd(), 0);
    std::filesystem::resize_file(folder / "gone", 0);
    (void)*static_cast<const volatile std::byte*>(mapping);
  });
  CHECK(WIFSIGNALED(touched.status));
  CHECK(WTERMSIG(touched.status) == SIGBUS);
  CHECK(touched.err.empty());
}
