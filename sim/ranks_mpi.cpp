#include <mpi.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <exception>
#include <mutex>

#include "ranks.hpp"

namespace trainyard::program {
namespace {

constexpr std::size_t kMessage = std::size_t{1} << 30;  // bytes per message: MPI counts them in an int

}  // namespace

/// The shared counter lies in a window of rank 0; all ranks fetch and add.
struct Ranks::Job {
  bool several = false;
  std::atomic<std::uint64_t> alone{0};
  std::mutex mutex;  // MPI is called by one thread at a time
  MPI_Win window = MPI_WIN_NULL;
  std::uint64_t* counter = nullptr;
};

bool Ranks::has_mpi() { return true; }

Ranks::Ranks() : job_(new Job) {
  // If not started by mpirun, Open MPI would look for daemons, which takes long.
  if (!std::getenv("OMPI_COMM_WORLD_SIZE") && !std::getenv("PMIX_RANK") && !std::getenv("PMI_RANK")) return;
  int provided = 0, rank = 0, count = 1;
  MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &provided);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &count);
  rank_ = static_cast<std::size_t>(rank);
  count_ = static_cast<std::size_t>(count);
  job_->several = true;
  MPI_Win_allocate(rank == 0 ? sizeof(std::uint64_t) : 0, sizeof(std::uint64_t), MPI_INFO_NULL, MPI_COMM_WORLD,
                   static_cast<void*>(&job_->counter), &job_->window);
  if (rank == 0) *job_->counter = 0;
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Win_lock_all(0, job_->window);
}

Ranks::~Ranks() {
  if (job_->several && std::uncaught_exceptions() == 0) {
    MPI_Win_unlock_all(job_->window);
    MPI_Win_free(&job_->window);
    MPI_Finalize();
  }
  delete job_;
}

std::uint64_t Ranks::next() {
  if (!job_->several) return job_->alone++;
  const std::lock_guard lock{job_->mutex};
  const std::uint64_t one = 1;
  std::uint64_t number = 0;
  MPI_Fetch_and_op(&one, &number, MPI_UINT64_T, 0, 0, MPI_SUM, job_->window);
  MPI_Win_flush(0, job_->window);
  return number;
}

/// Exchanges lengths and owners of all parts by an all-reduce; then each rank broadcasts its parts in one message
/// stream.
void Ranks::share(std::vector<std::string>& parts) {
  if (!job_->several) return;
  const std::lock_guard lock{job_->mutex};
  std::vector<std::uint64_t> mine(2 * parts.size()), all(2 * parts.size());  // length, owner + 1
  for (std::size_t i = 0; i < parts.size(); ++i)
    if (!parts[i].empty()) {
      mine[2 * i] = parts[i].size();
      mine[2 * i + 1] = rank_ + 1;
    }
  MPI_Allreduce(mine.data(), all.data(), static_cast<int>(all.size()), MPI_UINT64_T, MPI_MAX, MPI_COMM_WORLD);
  for (std::size_t rank = 0; rank < count_; ++rank) {
    std::string bytes;
    std::size_t size = 0;
    for (std::size_t i = 0; i < parts.size(); ++i) {
      if (all[2 * i + 1] != rank + 1) continue;
      size += all[2 * i];
      if (rank == rank_) bytes += parts[i];
    }
    bytes.resize(size);
    for (std::size_t at = 0; at < size; at += kMessage)
      MPI_Bcast(bytes.data() + at, static_cast<int>(std::min(kMessage, size - at)), MPI_BYTE, static_cast<int>(rank),
                MPI_COMM_WORLD);
    for (std::size_t i = 0, at = 0; i < parts.size() && rank != rank_; ++i) {
      if (all[2 * i + 1] != rank + 1) continue;
      parts[i] = bytes.substr(at, all[2 * i]);
      at += all[2 * i];
    }
  }
}

void Ranks::meet() {
  const std::lock_guard lock{job_->mutex};
  if (job_->several) MPI_Barrier(MPI_COMM_WORLD);
}

}  // namespace trainyard::program
