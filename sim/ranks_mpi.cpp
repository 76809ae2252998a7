#include <mpi.h>

#include <atomic>
#include <cstdlib>
#include <exception>
#include <mutex>

#include "ranks.hpp"

namespace trainyard::program {

/// The counter lies in a window of rank 0, from which all ranks fetch and add.
struct Ranks::Job {
  bool several = false;
  std::atomic<std::uint64_t> alone{0};
  std::mutex mutex;  // MPI is called by one thread at a time
  MPI_Win window = MPI_WIN_NULL;
  std::uint64_t* counter = nullptr;
};

bool Ranks::has_mpi() { return true; }

Ranks::Ranks() : job_(new Job) {
  // Started by hand, Open MPI would look for daemons and take its time.
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

void Ranks::meet() {
  const std::lock_guard lock{job_->mutex};
  if (job_->several) MPI_Barrier(MPI_COMM_WORLD);
}

}  // namespace trainyard::program
