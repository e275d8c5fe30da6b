#pragma once

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include <cerrno>
#include <cstddef>
#include <exception>
#include <functional>
#include <stdexcept>
#include <thread>

namespace trainctl::data::testing {

/// Makes the system call `call` fail with `error` in this thread and its child threads, as a
/// container policy or an old kernel does.
inline void fail_system_call(unsigned call, int error) {
  sock_filter filter[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | static_cast<unsigned>(error)),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog program{4, filter};
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
      ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) {
    throw std::runtime_error("this kernel does not support seccomp filters");
  }
}

/// Runs `body` in a thread in which the system call fails, and rethrows its exceptions.
inline void without(unsigned call, int error, const std::function<void()>& body) {
  std::exception_ptr failure;
  std::thread thread([&] {
    try {
      fail_system_call(call, error);
      body();
    } catch (...) {
      failure = std::current_exception();
    }
  });
  thread.join();
  if (failure) std::rethrow_exception(failure);
}

inline void without_uring(int error, const std::function<void()>& body) {
  without(SYS_io_uring_setup, error, body);
}

/// Makes thread creation fail, as at a limit of the machine or container.
inline void without_threads(const std::function<void()>& body) {
  without(SYS_clone3, EAGAIN, body);
}

}  // namespace trainctl::data::testing
