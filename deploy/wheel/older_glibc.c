/* older_glibc.c - replaces functions of glibc 2.35 and newer, so the program runs with an older
 * glibc.
 *
 * Since glibc 2.35, hypot has a new symbol version, which does not set errno. Every x86-64 glibc
 * also has the previous symbol version, which this file calls.
 *
 * _dl_find_object finds the unwinder's tables for an address. If it were not defined here, the
 * program would need glibc 2.35 only for C++ exceptions, which tensord does not throw. */
#include <dlfcn.h>
#include <link.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef DLFO_STRUCT_HAS_EH_DBASE /* defined since glibc 2.35, which also declares _dl_find_object */

struct search {
    uintptr_t address;
    struct dl_find_object *found;
};

/* Callback of dl_iterate_phdr. If a loaded segment of the object contains the address, stores the
 * range of all loaded segments and returns 1. */
static int look_into(struct dl_phdr_info *object, size_t size, void *context)
{
    const struct search *search = context;
    struct dl_find_object *found = search->found;
    uintptr_t begin = UINTPTR_MAX, end = 0;
    bool has_address = false;
    (void)size;
    found->dlfo_eh_frame = NULL;
    for (int i = 0; i < object->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &object->dlpi_phdr[i];
        const uintptr_t first = object->dlpi_addr + segment->p_vaddr;
        if (segment->p_type == PT_GNU_EH_FRAME)
            found->dlfo_eh_frame = (void *)first; /* NOLINT(performance-no-int-to-ptr) */
        if (segment->p_type != PT_LOAD)
            continue;
        begin = first < begin ? first : begin;
        end = first + segment->p_memsz > end ? first + segment->p_memsz : end;
        has_address |= search->address - first < segment->p_memsz;
    }
    if (!has_address)
        return 0;
    found->dlfo_map_start = (void *)begin; /* NOLINT(performance-no-int-to-ptr) */
    found->dlfo_map_end = (void *)end;     /* NOLINT(performance-no-int-to-ptr) */
    return 1;
}

/* Hidden, so libraries that the program loads still use glibc's function. */
__attribute__((visibility("hidden"))) int _dl_find_object(void *address,
                                                          struct dl_find_object *found)
{
    *found = (struct dl_find_object){ 0 };
    const struct search search = { .address = (uintptr_t)address, .found = found };
    return dl_iterate_phdr(look_into, (void *)&search) && found->dlfo_eh_frame ? 0 : -1;
}

#endif

#ifdef __x86_64__

double older_hypot(double x, double y);
__asm__(".symver older_hypot, hypot@GLIBC_2.2.5");

__attribute__((visibility("hidden"))) double hypot(double x, double y)
{
    return older_hypot(x, y);
}

#endif
