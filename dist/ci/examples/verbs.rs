// SPDX-License-Identifier: BSD-2-Clause
// What a binding to libibverbs does first: open the device, allocate, register,
// poll an empty queue.  No crate and no generated code, so that rustc suffices:
//
//     rustc -l ibverbs dist/ci/examples/verbs.rs && urnic run -- ./verbs
use std::ffi::{c_char, c_int, c_void, CStr};
use std::ptr;

#[link(name = "ibverbs")]
extern "C" {
    fn ibv_get_device_list(count: *mut c_int) -> *mut *mut c_void;
    fn ibv_free_device_list(list: *mut *mut c_void);
    fn ibv_get_device_name(device: *mut c_void) -> *const c_char;
    fn ibv_open_device(device: *mut c_void) -> *mut c_void;
    fn ibv_close_device(context: *mut c_void) -> c_int;
    fn ibv_alloc_pd(context: *mut c_void) -> *mut c_void;
    fn ibv_dealloc_pd(pd: *mut c_void) -> c_int;
    fn ibv_reg_mr(pd: *mut c_void, addr: *mut c_void, length: usize, access: c_int) -> *mut c_void;
    fn ibv_dereg_mr(mr: *mut c_void) -> c_int;
    fn ibv_create_cq(
        context: *mut c_void,
        entries: c_int,
        cq_context: *mut c_void,
        channel: *mut c_void,
        vector: c_int,
    ) -> *mut c_void;
    fn ibv_destroy_cq(cq: *mut c_void) -> c_int;
}

const LOCAL_WRITE: c_int = 1;

fn made(what: &str, object: *mut c_void) -> *mut c_void {
    assert!(!object.is_null(), "{what}: {}", std::io::Error::last_os_error());
    object
}

unsafe fn use_device(device: *mut c_void) {
    let mut memory = vec![0u8; 4096];
    let context = made("open_device", ibv_open_device(device));
    let pd = made("alloc_pd", ibv_alloc_pd(context));
    let addr = memory.as_mut_ptr().cast();
    let mr = made("reg_mr", ibv_reg_mr(pd, addr, memory.len(), LOCAL_WRITE));
    let null = ptr::null_mut();
    let cq = made("create_cq", ibv_create_cq(context, 16, null, null, 0));
    assert_eq!(ibv_destroy_cq(cq), 0);
    assert_eq!(ibv_dereg_mr(mr), 0);
    assert_eq!(ibv_dealloc_pd(pd), 0);
    assert_eq!(ibv_close_device(context), 0);
}

fn main() {
    let mut count = 0;
    unsafe {
        let list = ibv_get_device_list(&mut count);
        assert!(!list.is_null() && count > 0, "no devices");
        for i in 0..count as usize {
            let device = *list.add(i);
            use_device(device);
            println!("{} works", CStr::from_ptr(ibv_get_device_name(device)).to_string_lossy());
        }
        ibv_free_device_list(list);
    }
}
